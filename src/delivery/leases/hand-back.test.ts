import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { HandBack } from './hand-back.ts';

test('shards that could not be handed back are owned again, and notifications ignored meanwhile are made up for', async () => {
  const kept: number[] = [];
  const released: number[] = [];
  const handBack = new HandBack({
    log: createLog('silent'),
    drain: async (shards) => shards.slice(0, 1),
    release: async (shards) => {
      if (shards.includes(2)) throw new Error('the database is unavailable');
      released.push(...shards);
    },
    onFinished: () => {},
    onKept: (shards) => kept.push(...shards),
    isRecording: () => false,
  });
  await handBack.start([1, 2, 3]);
  assert.deepEqual(released, [1]);
  assert.deepEqual(kept, [2, 3]);
  assert.deepEqual([...handBack.inProgress], []);
});
