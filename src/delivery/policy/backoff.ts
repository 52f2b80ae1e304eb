/**
 * What holds a webhook back: a pause that its endpoint asked for, and the breaker. In memory on the monotonic clock, so that
 * a clock that is set neither freezes nor floods it; in the table as times of day, for whoever owns the shard next.
 */
import type { Clock } from '#core/clock.ts';
import { breakerAfter, restoreBreaker, type Breaker } from './breaker.ts';
import type { Effect } from './effect.ts';
import { PAUSE_MAX_MS } from './policy.ts';

export type Backoff = { readonly pausedUntilMs: number; readonly breaker: Breaker | null };
export type StoredBackoff = { pausedUntil: Date | null; probeAt: Date | null };

/** The same moment on both clocks. */
export type Moment = { now: Date; nowMs: number };

export const momentOf = (clock: Clock): Moment => ({ now: clock.now(), nowMs: clock.monotonicMs() });

export const NO_BACKOFF: Backoff = { pausedUntilMs: Number.NEGATIVE_INFINITY, breaker: null };

/** The same hold where nothing changed. `pauseMs` is what the outcome asks for: a shorter pause than there is changes nothing. */
export const backoffAfter = (
  backoff: Backoff,
  exchange: { effect: Effect; pauseMs: number; failures: number; isProbe: boolean; nowMs: number; random: number },
): Backoff => {
  const { pauseMs, nowMs } = exchange;
  const pausedUntilMs = pauseMs > 0 ? Math.max(backoff.pausedUntilMs, nowMs + pauseMs) : backoff.pausedUntilMs;
  const breaker = breakerAfter(backoff.breaker, exchange);
  return pausedUntilMs === backoff.pausedUntilMs && breaker === backoff.breaker ? backoff : { pausedUntilMs, breaker };
};

export const toStored = ({ pausedUntilMs, breaker }: Backoff, { now, nowMs }: Moment): StoredBackoff => ({
  pausedUntil: pausedUntilMs > nowMs ? new Date(now.getTime() + pausedUntilMs - nowMs) : null,
  probeAt: breaker === null ? null : new Date(now.getTime() + breaker.probeAtMs - nowMs),
});

/** No clock of another machine, and none that jumped, makes it longer than the longest pause and gap there are. */
export const fromStored = (
  { pausedUntil, probeAt }: StoredBackoff,
  failures: number,
  { now, nowMs }: Moment,
): Backoff => {
  const waitMs = (until: Date | null): number => (until === null ? 0 : Math.max(0, until.getTime() - now.getTime()));
  return {
    pausedUntilMs: nowMs + Math.min(waitMs(pausedUntil), PAUSE_MAX_MS),
    breaker: restoreBreaker({ failures, waitMs: waitMs(probeAt) }, nowMs),
  };
};
