/** Histograms of durations with fixed bounds, which can be added. */

/** Milliseconds. Histograms in the database use these bounds: other bounds need another column. */
const BOUNDS_MS: readonly number[] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000];

/** One count per bound, of durations up to it and above the previous bound; the last count is of durations above all bounds. */
export type Histogram = readonly number[];

export function emptyHistogram(): number[] {
  return Array.from({ length: BOUNDS_MS.length + 1 }, () => 0);
}

/** Returns the index of the bucket of a duration. */
export function bucketOf(durationMs: number): number {
  const at = BOUNDS_MS.findIndex((boundMs) => durationMs <= boundMs);
  return at === -1 ? BOUNDS_MS.length : at;
}

export function added(a: Histogram, b: Histogram): number[] {
  return emptyHistogram().map((_, bucket) => (a[bucket] ?? 0) + (b[bucket] ?? 0));
}

/** Milliseconds: more than `above`, at most `within`; null if there is no upper bound. */
export type Range = { above: number; within: number | null };

/** Returns the bucket whose upper bound is this one; the last bound stands for all durations above the previous one. */
export function rangeUpTo(boundMs: number): Range {
  const at = BOUNDS_MS.indexOf(boundMs);
  const isLast = at === BOUNDS_MS.length - 1;
  return { above: BOUNDS_MS[at - 1] ?? 0, within: isLast ? null : boundMs };
}

const durationText = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`);

/** Returns `25–50 ms`, `500 ms–1 s`, `more than 30 s`. */
export function rangeText({ above, within }: Range): string {
  if (within === null) return `more than ${durationText(above)}`;
  const [from, to] = [durationText(above), durationText(within)];
  const isSameUnit = from.endsWith(' ms') === to.endsWith(' ms');
  return `${above === 0 ? '0' : isSameUnit ? from.replace(/ m?s$/, '') : from}–${to}`;
}

/**
 * Returns the bucket of a quantile (0–1); null if the histogram is empty. It does not interpolate, because the distribution
 * inside a bucket is unknown: durations of 1,802–1,850 ms would be shown as 1,750.
 */
export function quantileOf(histogram: Histogram, share: number): Range | null {
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
}
