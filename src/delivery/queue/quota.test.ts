import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Quota } from './run-queue.ts';

test('pruning removes lanes that no longer wait, and the others keep their order', () => {
  const quota = new Quota<string, number>(10);
  for (const lane of [1, 2, 3, 4]) quota.block('a', 'slow', lane, lane === 4);
  quota.block('b', 'fast', 5, false);
  quota.prune((lane) => lane === 1 || lane === 4 || lane === 5);
  assert.deepEqual([quota.wake('a', 'slow'), quota.wake('a', 'slow')], [2, 3]);
  assert.deepEqual([quota.wake('a', 'slow'), quota.wake('b', 'fast')], [undefined, undefined]);
});
