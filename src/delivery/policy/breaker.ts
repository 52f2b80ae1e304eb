/**
 * The circuit breaker of a webhook: after five consecutive failures it allows one attempt at a time, at growing
 * intervals, until one succeeds. Waiting deliveries keep their due times and are not charged an attempt. Pure: time and
 * randomness are parameters; times are monotonic.
 */
import type { Effect } from './effect.ts';
import { withJitter } from './jitter.ts';

/** An open breaker; a closed one is null. `failedProbes` counts the probes that failed since it opened. */
export type Breaker = { failedProbes: number; probeAtMs: number };

const OPENS_AT_FAILURES = 5;
const PROBE_FIRST_MS = 10_000;
const PROBE_MAX_MS = 300_000;

/** Returns the milliseconds from one probe to the next, which double with each failed probe. */
const gapMs = (failedProbes: number): number => Math.min(PROBE_FIRST_MS * 2 ** failedProbes, PROBE_MAX_MS);

/**
 * Returns the breaker after an attempt that ended at `nowMs` with `failures` consecutive failures. `isProbe`: the
 * attempt started while the breaker was open. A failure of an older attempt does not lengthen the interval: 32 attempts
 * cut off by one restart of an endpoint would delay the first probe by 5 minutes.
 */
export function breakerAfter(
  breaker: Breaker | null,
  exchange: { effect: Effect; failures: number; isProbe: boolean; nowMs: number; random: number },
): Breaker | null {
  const { effect, failures, isProbe, nowMs, random } = exchange;
  if (effect === 'success') return null;
  if (breaker === null) {
    if (effect === 'nothing' || failures < OPENS_AT_FAILURES) return null;
    return { failedProbes: 0, probeAtMs: nowMs + withJitter(gapMs(0), random) };
  }
  if (!isProbe) return breaker;
  // A requested pause or an internal error says nothing about the endpoint: probe again after the first interval.
  if (effect === 'nothing') return { ...breaker, probeAtMs: nowMs + withJitter(gapMs(0), random) };
  const failedProbes = breaker.failedProbes + 1;
  return { failedProbes, probeAtMs: nowMs + withJitter(gapMs(failedProbes), random) };
}

/**
 * Restores the breaker from the stored state. `waitMs` is the time until the next probe. The number of failed probes is
 * not stored but derived from the consecutive failures; these include attempts that were in flight when the breaker
 * opened, so the interval may be too long but never too short.
 */
export function restoreBreaker(stored: { failures: number; waitMs: number }, nowMs: number): Breaker | null {
  const { failures, waitMs } = stored;
  if (failures < OPENS_AT_FAILURES) return null;
  const longestMs = withJitter(PROBE_MAX_MS, 1);
  return { failedProbes: failures - OPENS_AT_FAILURES, probeAtMs: nowMs + Math.min(Math.max(0, waitMs), longestMs) };
}
