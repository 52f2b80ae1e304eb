import assert from 'node:assert/strict';
import { test } from 'node:test';
import { restartPauseMs } from './supervisor.ts';

test('the first restart has no pause, and the pauses of further ones double up to ten seconds', () => {
  assert.deepEqual([1, 2, 3, 4, 8, 9, 50].map(restartPauseMs), [0, 100, 200, 400, 6_400, 10_000, 10_000]);
});
