/**
 * What delays the attempts of a webhook: the pause that its endpoint requested, the circuit breaker and the rate limit.
 * In memory all use the monotonic clock, so that setting the clock neither blocks a webhook nor causes a burst;
 * `webhook_state` stores pause and breaker as times of day for the next owner of the shard. Pure.
 *
 * After five consecutive failures the circuit breaker allows one attempt at a time, at growing intervals, until one
 * succeeds. Waiting deliveries keep their due times and are not charged an attempt.
 */
import type { Clock } from '#core/clock.ts';
import { PAUSE_MAX_MS, withJitter, type Effect } from './policy.ts';

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

export type Backoff = { readonly pausedUntilMs: number; readonly breaker: Breaker | null };
export type StoredBackoff = { pausedUntil: Date | null; probeAt: Date | null };

/** One instant, on the wall clock and on the monotonic clock. */
export type Moment = { now: Date; nowMs: number };

export function momentOf(clock: Clock): Moment {
  return { now: clock.now(), nowMs: clock.monotonicMs() };
}

export const NO_BACKOFF: Backoff = { pausedUntilMs: Number.NEGATIVE_INFINITY, breaker: null };

/**
 * Returns the backoff after an attempt, and the same object if nothing changed. `pauseMs` is the pause that the outcome
 * requests; a pause never shortens a longer one.
 */
export function backoffAfter(
  backoff: Backoff,
  exchange: { effect: Effect; pauseMs: number; failures: number; isProbe: boolean; nowMs: number; random: number },
): Backoff {
  const { pauseMs, nowMs } = exchange;
  const pausedUntilMs = pauseMs > 0 ? Math.max(backoff.pausedUntilMs, nowMs + pauseMs) : backoff.pausedUntilMs;
  const breaker = breakerAfter(backoff.breaker, exchange);
  return pausedUntilMs === backoff.pausedUntilMs && breaker === backoff.breaker ? backoff : { pausedUntilMs, breaker };
}

export function toStored({ pausedUntilMs, breaker }: Backoff, { now, nowMs }: Moment): StoredBackoff {
  return {
    pausedUntil: pausedUntilMs > nowMs ? new Date(now.getTime() + pausedUntilMs - nowMs) : null,
    probeAt: breaker === null ? null : new Date(now.getTime() + breaker.probeAtMs - nowMs),
  };
}

/**
 * Restores a stored backoff. Waits are limited to the longest pause and the longest probe interval, whatever the clock
 * of another machine wrote.
 */
export function fromStored({ pausedUntil, probeAt }: StoredBackoff, failures: number, { now, nowMs }: Moment): Backoff {
  const waitMs = (until: Date | null): number => (until === null ? 0 : Math.max(0, until.getTime() - now.getTime()));
  return {
    pausedUntilMs: nowMs + Math.min(waitMs(pausedUntil), PAUSE_MAX_MS),
    breaker: restoreBreaker({ failures, waitMs: waitMs(probeAt) }, nowMs),
  };
}

/** A start that is at most this late does not delay the next one: the usual lateness of an event loop. */
export const CATCH_UP_MS = 100;

/**
 * Returns when a webhook's rate limit (`rate_per_second`) allows the next delivery after one that started at `nowMs`; `nextStartMs` is the previous result.
 * Starts are evenly spaced, and the rate is exact on average, because a late start does not shift the next one. A token
 * bucket of one second would send 1,000 requests at once, and 2,000 in a second, to an endpoint limited to 1,000 per
 * second.
 */
export function nextStartAfter(nextStartMs: number, ratePerSecond: number, nowMs: number): number {
  return (nowMs - nextStartMs <= CATCH_UP_MS ? nextStartMs : nowMs) + 1_000 / ratePerSecond;
}
