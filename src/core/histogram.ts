/** Durations in few numbers, which add up however they were counted apart: how many took up to which of some bounds. */

/** Milliseconds. Rows in the database were counted by them: another table of bounds is another column there. */
const BOUNDS_MS: readonly number[] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000];

/** A count for each bound, of what took no longer and longer than the one before; the last is of what took longer than all. */
export type Histogram = readonly number[];

export const emptyHistogram = (): number[] => Array.from({ length: BOUNDS_MS.length + 1 }, () => 0);

/** The place in a histogram of what took so long. */
export const bucketOf = (durationMs: number): number => {
  const at = BOUNDS_MS.findIndex((boundMs) => durationMs <= boundMs);
  return at === -1 ? BOUNDS_MS.length : at;
};

export const added = (a: Histogram, b: Histogram): number[] =>
  emptyHistogram().map((_, bucket) => (a[bucket] ?? 0) + (b[bucket] ?? 0));

/** Milliseconds: more than `above`, at most `within`; null where there is no bound above. */
export type Range = { above: number; within: number | null };

/**
 * Returns the bucket that the given share (0–1) ends in, null of nothing. Where in it the durations lie is not known: all of
 * 1,802–1,850 ms were shown as 1,750 when they were taken to lie evenly.
 */
export const quantileOf = (histogram: Histogram, share: number): Range | null => {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = share * total;
  let before = 0;
  for (const [bucket, count] of histogram.entries()) {
    if (count > 0 && before + count >= rank)
      return { above: BOUNDS_MS[bucket - 1] ?? 0, within: BOUNDS_MS[bucket] ?? null };
    before += count;
  }
  return { above: BOUNDS_MS.at(-1) ?? 0, within: null };
};
