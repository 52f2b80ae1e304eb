/** Auto-disable: decides when a webhook has failed often and long enough to be disabled or warned about. Pure. */
import type { Outcome } from '../attempt/http/outcome.ts';
import type { RetryProfile } from '../attempt/target.ts';
import { effectOf, type Health } from './policy.ts';

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
