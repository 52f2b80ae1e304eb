/**
 * The backoff of a webhook: the pause that its endpoint requested, and the circuit breaker. In memory both use the
 * monotonic clock, so that setting the clock neither blocks a webhook nor causes a burst; `webhook_state` stores them
 * as times of day for the next owner of the shard.
 */
import type { Clock } from '#core/clock.ts';
import { breakerAfter, restoreBreaker, type Breaker } from './breaker.ts';
import type { Effect } from './effect.ts';
import { PAUSE_MAX_MS } from './policy.ts';

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
