/** What an attempt's outcome makes of its delivery and its webhook: pure, ready to be recorded. */
import type { Pending } from '../queue/loaded-deliveries.ts';
import { isInternalError } from '../attempt/http/outcome.ts';
import { requiresDisable, requiresWarning, type DeactivationSettings } from './deactivation.ts';
import { effectOf } from './effect.ts';
import { backoffAfter, toStored, type Backoff, type Moment } from './backoff.ts';
import { faultsAfter } from './internal-faults.ts';
import { healthAfter, pauseMsOf, nextStepAfter, type Health, type RetryProfile } from './policy.ts';
import type { Entry } from '../record/entry.ts';

export type Decision = { entry: Entry; health: Health; backoff: Backoff; isPendingDisable: boolean };

export const decide = (given: {
  shard: number;
  /** Under which the attempt began. */
  fence: number | undefined;
  delivery: Pending;
  attempt: NonNullable<Entry['attempt']>;
  profile: RetryProfile;
  health: Health;
  backoff: Backoff;
  /** The attempt began while the breaker was open. */
  isProbe: boolean;
  /** An outcome before this one demands that the webhook is switched off. */
  isPendingDisable: boolean;
  deactivation: DeactivationSettings;
  moment: Moment;
  random: number;
}): Decision => {
  const { shard, fence, delivery, attempt, moment } = given;
  const { now } = moment;
  const number = delivery.attempts + 1;
  const faults = faultsAfter(delivery.faults, attempt.outcome);
  const { profile, random } = given;
  const nextStep = nextStepAfter(attempt.outcome, { attempt: number, faults, profile, random });
  const counted = healthAfter(given.health, attempt.outcome, now);
  const { consecutiveFailures } = counted;
  // Until it is done a success takes it back: it arrives there after all.
  const isPendingDisable =
    consecutiveFailures > 0 &&
    (given.isPendingDisable || requiresDisable(counted, attempt.outcome, now, profile, given.deactivation));
  // Of what is switched off nobody is warned any more.
  const isWarning = !isPendingDisable && requiresWarning(counted, attempt.outcome, now, profile, given.deactivation);
  const health = isWarning ? { ...counted, isWarned: true } : counted;
  const backoff = backoffAfter(given.backoff, {
    effect: effectOf(attempt.outcome),
    pauseMs: pauseMsOf(attempt.outcome),
    failures: consecutiveFailures,
    isProbe: given.isProbe,
    nowMs: moment.nowMs,
    random,
  });
  // The first success is noted, and none after it: the next owner has to know whom it may trust with a slot.
  const isFirst = health.hasSucceeded !== given.health.hasSucceeded;
  const hasChanged = isFirst || backoff !== given.backoff || consecutiveFailures !== given.health.consecutiveFailures;
  return {
    health,
    backoff,
    isPendingDisable,
    entry: {
      shard,
      fence,
      delivery,
      attempt,
      // What our own faults end shows one attempt more than was charged: the one that says so.
      attempts: isInternalError(attempt.outcome) && nextStep.kind === 'retry' ? delivery.attempts : number,
      faults,
      next:
        nextStep.kind === 'retry' ? { dueAt: new Date(now.getTime() + nextStep.afterMs) } : { state: nextStep.kind },
      webhook: hasChanged ? { ...health, ...toStored(backoff, moment), isPendingDisable } : null,
      isWarning,
    },
  };
};
