import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endAll } from './setup/endings.ts';

test('what one end throws keeps none of the others from being done, and is told', async () => {
  const done: string[] = [];
  const ends = [
    async () => void done.push('first'),
    () => Promise.reject(new Error('not mine')),
    async () => void done.push('last'),
  ];
  await assert.rejects(endAll(ends), ({ errors }: AggregateError) => /not mine/.test(String(errors[0])));
  assert.deepEqual(done, ['last', 'first']);
});
