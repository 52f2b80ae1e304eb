import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCleanups } from './setup/cleanups.ts';

test('a cleanup that throws does not prevent the others, and its error is reported', async () => {
  const done: string[] = [];
  const ends = [
    async () => void done.push('first'),
    () => Promise.reject(new Error('not mine')),
    async () => void done.push('last'),
  ];
  await assert.rejects(runCleanups(ends), ({ errors }: AggregateError) => /not mine/.test(String(errors[0])));
  assert.deepEqual(done, ['last', 'first']);
});
