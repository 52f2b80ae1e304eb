import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createLog } from '#core/log.ts';
import { createShardMetrics } from '../metrics/shards.ts';
import { OwnedShards } from './owned-shards.ts';

function openHoldings() {
  const said: string[] = [];
  const holdings = new OwnedShards({
    log: createLog('warn', { write: (line) => void said.push((JSON.parse(line) as { msg: string }).msg) }),
    metrics: createShardMetrics(new Registry()),
    onGained: () => {},
    onLost: () => {},
  });
  holdings.add(
    [1, 2, 3].map((shard) => ({ shard, fence: 1, crashCount: 0 })),
    () => 'free',
  );
  return { holdings, said };
}

test('a worker says once why it gives up what it has in flight', () => {
  for (const cause of ['silent', 'fenced'] as const) {
    const { holdings, said } = openHoldings();
    holdings.remove([1, 2], cause);
    holdings.remove([1, 2], cause);
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /running attempts are aborted/);
  }
});

test('what is handed back is handed back without a word', () => {
  const { holdings, said } = openHoldings();
  holdings.remove([1, 2, 3], 'returned');
  assert.deepEqual(said, []);
});
