import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Generations } from './generations.ts';

const MAX_BYTES = 100;

test('it never holds more than it may, and keeps what came last', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 70 }), { maxLength: 50 }), (sizes) => {
      const kept = new Generations<number>(MAX_BYTES, (bytes) => bytes);
      for (const [key, bytes] of sizes.entries()) {
        kept.add(key, bytes);
        const held = kept.keys().reduce((sum, one) => sum + (kept.get(one) ?? 0), 0);
        assert.ok(held <= MAX_BYTES, `${held} bytes`);
        assert.equal(kept.get(key), bytes > MAX_BYTES / 2 ? undefined : bytes);
      }
    }),
  );
});

test('what is still young is there after the old half went', () => {
  const kept = new Generations<number>(MAX_BYTES, () => 25);
  for (const key of [1, 2, 3, 4, 5]) kept.add(key, key);
  assert.deepEqual(kept.keys(), [5, 3, 4]);
});

test('what was deleted is gone from both halves', () => {
  const kept = new Generations<number>(MAX_BYTES, () => 50);
  kept.add(1, 1);
  kept.add(2, 2);
  kept.delete(1);
  kept.delete(2);
  assert.deepEqual([kept.has(1), kept.has(2), kept.keys()], [false, false, []]);
});
