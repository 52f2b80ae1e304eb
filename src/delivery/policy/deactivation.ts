/** When a webhook has failed for so long that it is switched off: pure. */
import type { Outcome } from '../attempt/http/outcome.ts';
import { effectOf } from './effect.ts';
import type { Health, RetryProfile } from './policy.ts';

export type DeactivationSettings = {
  deactivateAfterFailures: number;
  /** How long it must have failed, since the first failure in the row: what a delivery of the profile is tried for. */
  deactivateAfterSeconds: Readonly<Record<RetryProfile, number>>;
};

const WARNED_AT = 0.5;

/** How far a webhook is on the way to being switched off, from 0 to 1 and beyond. Both must be reached, so the lesser counts. */
const progressOf = (health: Health, now: Date, profile: RetryProfile, settings: DeactivationSettings): number => {
  if (health.firstFailureAt === null) return 0;
  const failingMs = now.getTime() - health.firstFailureAt.getTime();
  return Math.min(
    health.consecutiveFailures / settings.deactivateAfterFailures,
    failingMs / (settings.deactivateAfterSeconds[profile] * 1_000),
  );
};

/**
 * Whether the attempt that ended at `now` with this outcome switches its webhook off. `health` is as it left it
 * (`healthAfter`). Only an attempt that failed does: time alone, a pause and a fault of our own switch nothing off.
 */
export const requiresDisable = (
  health: Health,
  outcome: Outcome,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): boolean => {
  if (outcome.kind === 'gone') return true;
  return effectOf(outcome) === 'failure' && progressOf(health, now, profile, settings) >= 1;
};

/** `failures`: so many in a row and for so long. `gone`: the endpoint answered 410. */
export type DisableReason = 'failures' | 'gone';

/**
 * Why a condemned webhook is, from its health alone: what had not failed for long enough was condemned by a 410. It is not
 * written down beside `is_condemned`, since whoever comes later finds the same in what is there.
 */
export const disableReason = (
  health: Health,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): DisableReason => (progressOf(health, now, profile, settings) >= 1 ? 'failures' : 'gone');

/**
 * Whether the attempt that ended at `now` with this outcome takes its webhook half the way there, so that somebody is warned:
 * once in a row of failures. `health` is as it left it.
 */
export const requiresWarning = (
  health: Health,
  outcome: Outcome,
  now: Date,
  profile: RetryProfile,
  settings: DeactivationSettings,
): boolean =>
  effectOf(outcome) === 'failure' && !health.isWarned && progressOf(health, now, profile, settings) >= WARNED_AT;
