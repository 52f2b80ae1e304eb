/** The rate limit of a webhook (`rate_per_second`), on the monotonic clock. Pure. */

/** A start that is at most this late does not delay the next one: the usual lateness of an event loop. */
export const CATCH_UP_MS = 100;

/**
 * Returns when the next delivery may start after one that started at `nowMs`; `nextStartMs` is the previous result.
 * Starts are evenly spaced, and the rate is exact on average, because a late start does not shift the next one. A token
 * bucket of one second would send 1,000 requests at once, and 2,000 in a second, to an endpoint limited to 1,000 per
 * second.
 */
export function nextStartAfter(nextStartMs: number, ratePerSecond: number, nowMs: number): number {
  return (nowMs - nextStartMs <= CATCH_UP_MS ? nextStartMs : nowMs) + 1_000 / ratePerSecond;
}
