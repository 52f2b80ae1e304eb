import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { Bodies } from './bodies.ts';

const CACHE_BYTES = 256 * 1024;
/** A sixteenth of the cache holds three of them; a fourth exceeds it. */
const TEXT_BYTES = 5_000;

/** Events of one store, each with a long text. */
async function publishLong(count: number) {
  const engine = await startEngine();
  await engine.addWebhook('http://127.0.0.1:1/');
  const events = Array.from({ length: count }, (_, index) => ({
    type: 'transaction' as const,
    action: 'created',
    resourceId: String(index),
    modifiedAt: null,
    body: JSON.stringify({ id: index, text: 'x'.repeat(TEXT_BYTES) }),
  }));
  const published = await engine.publisher({ storeId: engine.storeId, events, now: engine.clock.now() });
  const ids = published.map(({ id }) => id);
  const bodies = new Bodies({ sql: engine.sql, bodyCacheBytes: CACHE_BYTES });
  return { ids, bodies, shard: shardOf(engine.storeId) };
}

test('for long events, a load reads the first ones requested, up to its limit', async () => {
  const { ids, bodies } = await publishLong(8);
  const asked = ids.toReversed();
  await bodies.load(asked);
  assert.deepEqual(
    asked.filter((id) => bodies.peek(id) !== undefined),
    asked.slice(0, 4),
  );
});

test('an event that a load left out is read when it is needed', async () => {
  const { ids, bodies, shard } = await publishLong(8);
  await bodies.load(ids);
  const found = await Promise.all(ids.map((id) => bodies.find(shard, id)));
  assert.deepEqual(
    found.map((body) => body?.event.id),
    ids,
  );
});
