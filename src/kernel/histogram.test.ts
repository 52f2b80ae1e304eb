import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { added, BOUNDS_MS, bucketOf, emptyHistogram, quantileMs, type Histogram } from './histogram.ts';

const histogramOf = (durations: readonly number[]): Histogram => {
  const histogram = emptyHistogram();
  for (const durationMs of durations) histogram[bucketOf(durationMs)] = (histogram[bucketOf(durationMs)] ?? 0) + 1;
  return histogram;
};

test('a bound is in its own bucket, and what is longer than all is in the last', () => {
  assert.deepEqual([0, 10, 10.5, 25, 30_000, 30_001].map(bucketOf), [0, 0, 1, 1, 10, 11]);
});

const table: readonly (readonly [what: string, durations: number[], share: number, ms: number | null])[] = [
  ['nothing', [], 0.5, null],
  ['one of the quick', [3], 0.5, 5],
  ['the half of four in one bucket', [60, 70, 80, 90], 0.5, 75],
  ['the half between two buckets', [5, 5, 200, 200], 0.5, 10],
  ['the slowest twentieth', [...Array.from({ length: 95 }, () => 5), 700, 700, 700, 700, 700], 0.95, 10],
  ['the slowest hundredth', [...Array.from({ length: 95 }, () => 5), 700, 700, 700, 700, 700], 0.99, 900],
  ['what took longer than all bounds', [40_000], 0.5, 30_000],
];

for (const [what, durations, share, ms] of table)
  test(`a quantile of ${what}`, () => assert.equal(quantileMs(histogramOf(durations), share), ms));

test('a quantile lies in the bucket of the one that has that rank', () => {
  const duration = fc.integer({ min: 0, max: 30_000 });
  fc.assert(
    fc.property(fc.array(duration, { minLength: 1 }), fc.double({ min: 0.01, max: 1, noNaN: true }), (all, share) => {
      const ranked = all.toSorted((a, b) => a - b);
      const bucket = bucketOf(ranked[Math.ceil(share * ranked.length) - 1] ?? -1);
      const told = quantileMs(histogramOf(all), share) ?? -1;
      assert.ok(told >= (BOUNDS_MS[bucket - 1] ?? 0) && told <= (BOUNDS_MS[bucket] ?? 0), `${told} in ${bucket}`);
    }),
  );
});

test('what was counted apart adds up to what is counted together', () => {
  const durations = fc.array(fc.integer({ min: 0, max: 60_000 }));
  fc.assert(
    fc.property(durations, durations, (a, b) =>
      assert.deepEqual(added(histogramOf(a), histogramOf(b)), histogramOf([...a, ...b])),
    ),
  );
});
