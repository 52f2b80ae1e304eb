/** A webhook's `rate_per_second`: pure, on a monotonic clock. */

/** How late a start may be and the next one still keep to the pace: what an event loop is late at most. */
export const CATCH_UP_MS = 100;

/**
 * When the next delivery may start, after one that started at `nowMs`; `paceAtMs` is what this said the last time. Evenly
 * spaced, and exact on average: a start that came late brings the next one no later. A bucket of a second's worth, as it is
 * mostly done, would be 1,000 requests in one moment, and 2,000 in a second, to an endpoint that is to get a steady thousand.
 */
export const nextStartAfter = (nextStartMs: number, ratePerSecond: number, nowMs: number): number =>
  (nowMs - nextStartMs <= CATCH_UP_MS ? nextStartMs : nowMs) + 1_000 / ratePerSecond;
