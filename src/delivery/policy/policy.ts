/** What follows from an outcome: pure, with time and chance given. */
import type { Outcome } from '../exchange/outcome.ts';

export type RetryProfile = 'hour' | 'long';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The gaps between attempts in milliseconds: one attempt more than there are gaps. */
const gapsMs: Readonly<Record<RetryProfile, readonly number[]>> = {
  hour: [1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13].map((minutes) => minutes * MINUTE),
  long: [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
};

/** Every gap is lengthened by 0–20 %, so that retries of one outage do not come back as one wave. */
const JITTER = 0.2;
const PAUSE_MAX_MS = HOUR;
/** How long to wait after a fault of our own, which costs the endpoint no attempt. */
const OWN_FAULT_GAP_MS = 30 * SECOND;
/** When a delivery that fails by our own faults is given up. */
const OWN_FAULT_AGE_MS = 72 * HOUR;

export type Verdict = { kind: 'successful' } | { kind: 'failed' } | { kind: 'retry'; afterMs: number; pauseMs: number };

/**
 * The verdict on attempt number `attempt` (from 1). `random` is in [0, 1). `pauseMs` > 0 pauses the whole webhook.
 * `ageMs` is the delivery's. A fault of our own side is never charged: the same attempt is made again, for 72 hours.
 */
export const verdictOn = (
  outcome: Outcome,
  { attempt, ageMs, profile, random }: { attempt: number; ageMs: number; profile: RetryProfile; random: number },
): Verdict => {
  if (outcome.kind === 'delivered') return { kind: 'successful' };
  if (outcome.kind === 'gone') return { kind: 'failed' };
  if (outcome.kind === 'ours') {
    if (ageMs > OWN_FAULT_AGE_MS) return { kind: 'failed' };
    return { kind: 'retry', afterMs: OWN_FAULT_GAP_MS * (1 + JITTER * random), pauseMs: 0 };
  }
  const gapMs = gapsMs[profile][attempt - 1];
  if (gapMs === undefined) return { kind: 'failed' };
  const pauseMs = outcome.kind === 'refused' ? Math.min(outcome.retryAfterMs, PAUSE_MAX_MS) : 0;
  return { kind: 'retry', afterMs: Math.max(gapMs * (1 + JITTER * random), pauseMs), pauseMs };
};

export type Health = { consecutiveFailures: number; firstFailureAt: Date | null };

/** How an outcome moves a webhook's count of consecutive failures. A pause and our own faults leave it as it is. */
export const healthAfter = (health: Health, outcome: Outcome, now: Date): Health => {
  switch (outcome.kind) {
    case 'delivered':
      return { consecutiveFailures: 0, firstFailureAt: null };
    case 'ours':
      return health;
    case 'refused':
      if (outcome.retryAfterMs > 0) return health;
      break;
    case 'gone':
    case 'timed_out':
    case 'unreachable':
    case 'blocked':
      break;
  }
  return { consecutiveFailures: health.consecutiveFailures + 1, firstFailureAt: health.firstFailureAt ?? now };
};
