/**
 * Retry policy and webhook health: what follows from the outcome of an attempt. Pure: time and randomness are
 * parameters.
 */
import type { RetryProfile } from '../attempt/delivery-target.ts';
import { isInternalError, type Outcome } from '../attempt/http/attempt-outcome.ts';

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
export function withJitter(ms: number, random: number): number {
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
export const PAUSE_MAX_MS = HOUR;

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
