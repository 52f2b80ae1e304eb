import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  added,
  bucketOf,
  emptyHistogram,
  quantileOf,
  rangeText,
  rangeUpTo,
  type Histogram,
  type Range,
} from './histogram.ts';

function histogramOf(durations: readonly number[]): Histogram {
  const histogram = emptyHistogram();
  for (const durationMs of durations) histogram[bucketOf(durationMs)] = (histogram[bucketOf(durationMs)] ?? 0) + 1;
  return histogram;
}

test('a bound belongs to its own bucket, and a longer duration than all bounds to the last', () => {
  assert.deepEqual([0, 10, 10.5, 25, 30_000, 30_001].map(bucketOf), [0, 0, 1, 1, 10, 11]);
});

const table: readonly (readonly [what: string, durations: number[], share: number, range: Range | null])[] = [
  ['nothing', [], 0.5, null],
  ['one of the fast ones', [3], 0.5, { above: 0, within: 10 }],
  ['the half of four in one bucket', [60, 70, 80, 90], 0.5, { above: 50, within: 100 }],
  ['nearly equal durations', [1_802, 1_820, 1_850], 0.5, { above: 1_000, within: 2_500 }],
  ['the half between two buckets', [5, 5, 200, 200], 0.5, { above: 0, within: 10 }],
  [
    'the slowest hundredth',
    [...Array.from({ length: 95 }, () => 5), 700, 700, 700],
    0.99,
    { above: 500, within: 1_000 },
  ],
  ['the least, above an empty bucket', [20], 0, { above: 10, within: 25 }],
  ['durations above all bounds', [40_000], 0.5, { above: 30_000, within: null }],
];

for (const [what, durations, share, range] of table)
  test(`a quantile of ${what}`, () => assert.deepEqual(quantileOf(histogramOf(durations), share), range));

test('the last bound stands for all durations above the one before it', () => {
  assert.deepEqual([10, 250, 5_000, 30_000].map(rangeUpTo), [
    { above: 0, within: 10 },
    { above: 100, within: 250 },
    { above: 2_500, within: 5_000 },
    { above: 10_000, within: null },
  ]);
});

test('a range is shown with the unit of both bounds once', () => {
  const ranges = [
    [0, 10],
    [25, 50],
    [500, 1_000],
    [1_000, 2_500],
    [30_000, null],
  ] as const;
  assert.deepEqual(
    ranges.map(([above, within]) => rangeText({ above, within })),
    ['0–10 ms', '25–50 ms', '500 ms–1 s', '1–2.5 s', 'more than 30 s'],
  );
});

test('the duration at the rank of a quantile lies in the range of the quantile', () => {
  const duration = fc.integer({ min: 0, max: 60_000 });
  fc.assert(
    fc.property(fc.array(duration, { minLength: 1 }), fc.double({ min: 0.01, max: 1, noNaN: true }), (all, share) => {
      const ranked = all.toSorted((a, b) => a - b);
      const exact = ranked[Math.ceil(share * ranked.length) - 1] ?? -1;
      const { above = Number.NaN, within = Number.NaN } = quantileOf(histogramOf(all), share) ?? {};
      assert.ok((exact > above || above === 0) && exact <= (within ?? Infinity), `${exact} in ${above}–${within}`);
    }),
  );
});

test('separately counted histograms add up to the histogram of all durations', () => {
  const durations = fc.array(fc.integer({ min: 0, max: 60_000 }));
  fc.assert(
    fc.property(durations, durations, (a, b) =>
      assert.deepEqual(added(histogramOf(a), histogramOf(b)), histogramOf([...a, ...b])),
    ),
  );
});
