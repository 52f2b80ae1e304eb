/**
 * Retry policy and webhook health: what follows from the outcome of an attempt. Pure: time and randomness are
 * parameters.
 */
import type { RetryProfile } from '../attempt/delivery-target.ts';
import { isInternalError, type Outcome } from '../attempt/http/attempt-outcome.ts';
import type { Clock } from '#core/clock.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/**
 * What an outcome says about the endpoint: it works, it fails, or nothing, after a requested pause or an internal
 * error.
 */
export type Effect = 'success' | 'failure' | 'nothing';

export function effectOf(outcome: Outcome): Effect {
  if (outcome.kind === 'delivered') return 'success';
  if (isInternalError(outcome) || (outcome.kind === 'refused' && outcome.retryAfterMs > 0)) return 'nothing';
  return 'failure';
}

/**
 * Every delay is lengthened by 0–20 %, never shortened, so that deliveries that failed together are not retried
 * together.
 */
const JITTER = 0.2;

/** Returns the delay with jitter. `random` is in [0, 1). */
function withJitter(ms: number, random: number): number {
  return ms * (1 + JITTER * random);
}

/**
 * Delay after the first internal error in a row. These are not charged as attempts, so the retry profile does not end a
 * delivery that they delay. It doubles with each further one, up to the longest probe interval of the
 * breaker.
 */
const INTERNAL_FAULT_GAP_MS = 30_000;
const LONGEST_GAPS = (5 * MINUTE) / INTERNAL_FAULT_GAP_MS;
/**
 * A delivery ends after this many delay units in a row, which is 72 hours. The units are counted instead of the
 * delivery's age: a delivery that waited for days behind a slow endpoint would otherwise end with the first resolver
 * error.
 */
export const INTERNAL_FAULTS_MAX = (72 * HOUR) / INTERNAL_FAULT_GAP_MS;

/** Returns the delay units in a fault of this duration. */
export function faultUnitsIn(ms: number): number {
  return ms / INTERNAL_FAULT_GAP_MS;
}

/**
 * An error that is thrown is most likely caused by the delivery itself and will repeat: the twelfth ends the delivery.
 */
const THROW_WEIGHT = INTERNAL_FAULTS_MAX / 12;

/**
 * Returns the fault count after this outcome: an internal error adds as many delay units as the wait that follows it,
 * an outcome of the endpoint resets the count to 0.
 */
export function faultsAfter(faults: number, outcome: Outcome): number {
  if (!isInternalError(outcome)) return 0;
  return faults + (outcome.kind === 'threw' ? THROW_WEIGHT : Math.min(faults + 1, LONGEST_GAPS));
}

/**
 * Returns the delay after an internal error that raised the count to `faults`; after a thrown error always the first
 * delay.
 */
function gapAfterFaultMs(faults: number, outcome: Outcome): number {
  return INTERNAL_FAULT_GAP_MS * (outcome.kind === 'threw' ? 1 : Math.min(Math.ceil(faults / 2), LONGEST_GAPS));
}

/** Delays between attempts in milliseconds. There is one attempt more than there are delays. */
export const gapsMs: Readonly<Record<RetryProfile, readonly number[]>> = {
  hour: [1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13].map((minutes) => minutes * MINUTE),
  long: [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
};

/** Returns the number of attempts after which a delivery fails. */
export function attemptsMaxOf(profile: RetryProfile): number {
  return gapsMs[profile].length + 1;
}

/** The longest pause that `Retry-After` can request. */
const PAUSE_MAX_MS = HOUR;

export type NextStep = { kind: 'successful' } | { kind: 'failed' } | { kind: 'retry'; afterMs: number };

/** Returns how long the outcome pauses the whole webhook, in ms; also after the last attempt of a delivery. */
export function pauseMsOf(outcome: Outcome): number {
  return outcome.kind === 'refused' ? Math.min(outcome.retryAfterMs, PAUSE_MAX_MS) : 0;
}

/**
 * Returns what follows attempt number `attempt` (from 1). `random` is in [0, 1). `faults` counts the internal errors,
 * this one included (`faultsAfter`); an internal error is not charged, so the same attempt number is used again.
 */
export function nextStepAfter(
  outcome: Outcome,
  { attempt, faults, profile, random }: { attempt: number; faults: number; profile: RetryProfile; random: number },
): NextStep {
  if (outcome.kind === 'delivered') return { kind: 'successful' };
  if (outcome.kind === 'gone') return { kind: 'failed' };
  if (isInternalError(outcome)) {
    if (faults >= INTERNAL_FAULTS_MAX) return { kind: 'failed' };
    return { kind: 'retry', afterMs: withJitter(gapAfterFaultMs(faults, outcome), random) };
  }
  const gapMs = gapsMs[profile][attempt - 1];
  if (gapMs === undefined) return { kind: 'failed' };
  return { kind: 'retry', afterMs: Math.max(withJitter(gapMs, random), pauseMsOf(outcome)) };
}

/** `isWarned`: the store was warned, in this series of failures, that half of the auto-disable threshold is reached. */
export type Failures = { consecutiveFailures: number; firstFailureAt: Date | null; isWarned: boolean };

/**
 * `hasSucceeded`: `webhook_state` has a row without failures, from which the next owner knows that the endpoint
 * responds.
 */
export type Health = Failures & { hasSucceeded: boolean };

/** The health of a webhook without a `webhook_state` row. */
export const UNKNOWN: Health = { consecutiveFailures: 0, firstFailureAt: null, isWarned: false, hasSucceeded: false };

export const HEALTHY: Health = { ...UNKNOWN, hasSucceeded: true };

/** Returns the health after an outcome. A requested pause and an internal error leave it unchanged. */
export function healthAfter(health: Health, outcome: Outcome, now: Date): Health {
  switch (effectOf(outcome)) {
    case 'success':
      return HEALTHY;
    case 'nothing':
      return health;
    case 'failure':
      return {
        consecutiveFailures: health.consecutiveFailures + 1,
        firstFailureAt: health.firstFailureAt ?? now,
        isWarned: health.isWarned,
        hasSucceeded: false,
      };
  }
}

// Auto-disable: decides when a webhook has failed often and long enough to be disabled or warned about.

export type DeactivationSettings = {
  deactivateAfterFailures: number;
  /**
   * Minimum time since the first consecutive failure, per retry profile: as long as one delivery of that profile is
   * retried.
   */
  deactivateAfterSeconds: Readonly<Record<RetryProfile, number>>;
};

const WARNED_AT = 0.5;

/**
 * Returns the progress towards auto-disable, 1 when it is due. Both conditions are required, so the smaller ratio
 * counts.
 */
function progressOf(health: Health, now: Date, profile: RetryProfile, settings: DeactivationSettings): number {
  if (health.firstFailureAt === null) return 0;
  const failingMs = now.getTime() - health.firstFailureAt.getTime();
  return Math.min(
    health.consecutiveFailures / settings.deactivateAfterFailures,
    failingMs / (settings.deactivateAfterSeconds[profile] * 1_000),
  );
}

/**
 * Returns whether the attempt that ended at `now` with this outcome requires that its webhook is disabled. `health`
 * already includes the attempt (`healthAfter`). Only a failed attempt can require it: not time alone, a requested pause
 * or an internal error.
 */
export function requiresDisable(
  health: Health,
  outcome: Outcome,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): boolean {
  if (outcome.kind === 'gone') return true;
  return effectOf(outcome) === 'failure' && progressOf(health, now, profile, settings) >= 1;
}

/** `failures`: enough consecutive failures over enough time. `gone`: the endpoint responded with 410. */
export type DisableReason = 'failures' | 'gone';

/**
 * Returns why a webhook with a pending disable is disabled. The reason is derived from its health instead of being
 * stored beside `is_condemned`: below the failure threshold, only a 410 can be the cause.
 */
export function disableReason(
  health: Health,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): DisableReason {
  return progressOf(health, now, profile, settings) >= 1 ? 'failures' : 'gone';
}

/**
 * Returns whether the attempt that ended at `now` with this outcome reaches half of the auto-disable threshold, so that
 * the store is warned once per series of failures. `health` already includes the attempt.
 */
export function requiresWarning(
  health: Health,
  outcome: Outcome,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): boolean {
  return effectOf(outcome) === 'failure' && !health.isWarned && progressOf(health, now, profile, settings) >= WARNED_AT;
}

// What delays the attempts of a webhook: the pause that its endpoint requested, the circuit breaker and the rate limit.
// In memory all use the monotonic clock, so that setting the clock neither blocks a webhook nor causes a burst;
// `webhook_state` stores pause and breaker as times of day for the next owner of the shard. Pure.
//
// After five consecutive failures the circuit breaker allows one attempt at a time, at growing intervals, until one
// succeeds. Waiting deliveries keep their due times and are not charged an attempt.

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
