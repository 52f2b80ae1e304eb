/** What follows from an outcome: pure, with time and chance given. */
import { isInternalError, type Outcome } from '../attempt/http/outcome.ts';
import { effectOf } from './effect.ts';
import { lengthened } from './jitter.ts';
import { gapAfterFaultMs, OWN_FAULTS_MAX } from './own-faults.ts';

export type RetryProfile = 'hour' | 'long';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The gaps between attempts in milliseconds: one attempt more than there are gaps. */
const gapsMs: Readonly<Record<RetryProfile, readonly number[]>> = {
  hour: [1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13].map((minutes) => minutes * MINUTE),
  long: [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
};

/** The longest that `Retry-After` may hold a webhook. */
export const PAUSE_MAX_MS = HOUR;

export type Verdict = { kind: 'successful' } | { kind: 'failed' } | { kind: 'retry'; afterMs: number };

/** For how long the outcome pauses the whole webhook, in ms: also when it was the delivery's last attempt. */
export const pauseMsOf = (outcome: Outcome): number =>
  outcome.kind === 'refused' ? Math.min(outcome.retryAfterMs, PAUSE_MAX_MS) : 0;

/**
 * The verdict on attempt number `attempt` (from 1). `random` is in [0, 1).
 * `faults` counts our own, this one included (`faultsAfter`). Such a fault is never charged: the same attempt is made again.
 */
export const verdictOn = (
  outcome: Outcome,
  { attempt, faults, profile, random }: { attempt: number; faults: number; profile: RetryProfile; random: number },
): Verdict => {
  if (outcome.kind === 'delivered') return { kind: 'successful' };
  if (outcome.kind === 'gone') return { kind: 'failed' };
  if (isInternalError(outcome)) {
    if (faults >= OWN_FAULTS_MAX) return { kind: 'failed' };
    return { kind: 'retry', afterMs: lengthened(gapAfterFaultMs(faults, outcome), random) };
  }
  const gapMs = gapsMs[profile][attempt - 1];
  if (gapMs === undefined) return { kind: 'failed' };
  return { kind: 'retry', afterMs: Math.max(lengthened(gapMs, random), pauseMsOf(outcome)) };
};

/** `isWarned`: the store was told, in this row of failures, that the webhook is half the way to being switched off. */
export type Failures = { consecutiveFailures: number; firstFailureAt: Date | null; isWarned: boolean };

/** `isProven`: it answers, and the table tells the next owner so: it has a row, without failures. */
export type Health = Failures & { isProven: boolean };

/** Nothing is recorded of it. */
export const UNKNOWN: Health = { consecutiveFailures: 0, firstFailureAt: null, isWarned: false, isProven: false };

export const HEALTHY: Health = { ...UNKNOWN, isProven: true };

/** How an outcome moves a webhook's count of consecutive failures. A pause and our own faults leave it as it is. */
export const healthAfter = (health: Health, outcome: Outcome, now: Date): Health => {
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
        isProven: false,
      };
  }
};
