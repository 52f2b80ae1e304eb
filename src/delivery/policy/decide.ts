/** Decides what follows from an attempt for its delivery and its webhook, as an entry ready to be recorded. Pure. */
import type { Pending, Entry } from './entry.ts';
import { isInternalError } from '../attempt/http/outcome.ts';
import { requiresDisable, requiresWarning, type DeactivationSettings } from './deactivation.ts';
import { effectOf } from './effect.ts';
import { backoffAfter, toStored, type Backoff, type Moment } from './backoff.ts';
import { faultsAfter } from './internal-faults.ts';
import { healthAfter, pauseMsOf, nextStepAfter, type Health } from './policy.ts';
import type { RetryProfile } from '../attempt/target.ts';

export type Decision = { entry: Entry; health: Health; backoff: Backoff; isPendingDisable: boolean };

export function decide(input: {
  shard: number;
  /** The fencing token of the shard when the attempt started. */
  fence: number | undefined;
  delivery: Pending;
  attempt: NonNullable<Entry['attempt']>;
  profile: RetryProfile;
  health: Health;
  backoff: Backoff;
  /** The attempt started while the breaker was open. */
  isProbe: boolean;
  /** An earlier outcome requires that the webhook is disabled. */
  isPendingDisable: boolean;
  deactivation: DeactivationSettings;
  moment: Moment;
  random: number;
}): Decision {
  const { shard, fence, delivery, attempt, moment } = input;
  const { now } = moment;
  const number = delivery.attempts + 1;
  const faults = faultsAfter(delivery.faults, attempt.outcome);
  const { profile, random } = input;
  const nextStep = nextStepAfter(attempt.outcome, { attempt: number, faults, profile, random });
  const counted = healthAfter(input.health, attempt.outcome, now);
  const { consecutiveFailures } = counted;
  // A success cancels a pending disable that is not committed yet.
  const isPendingDisable =
    consecutiveFailures > 0 &&
    (input.isPendingDisable || requiresDisable(counted, attempt.outcome, now, profile, input.deactivation));
  // A webhook that is about to be disabled needs no warning.
  const isWarning = !isPendingDisable && requiresWarning(counted, attempt.outcome, now, profile, input.deactivation);
  const health = isWarning ? { ...counted, isWarned: true } : counted;
  const backoff = backoffAfter(input.backoff, {
    effect: effectOf(attempt.outcome),
    pauseMs: pauseMsOf(attempt.outcome),
    failures: consecutiveFailures,
    isProbe: input.isProbe,
    nowMs: moment.nowMs,
    random,
  });
  // Only the first success is recorded: it lets the next owner classify the endpoint as fast.
  const isFirst = health.hasSucceeded !== input.health.hasSucceeded;
  const hasChanged = isFirst || backoff !== input.backoff || consecutiveFailures !== input.health.consecutiveFailures;
  return {
    health,
    backoff,
    isPendingDisable,
    entry: {
      shard,
      fence,
      delivery,
      attempt,
      // A delivery that ends because of internal errors shows one attempt more than was charged: the one that explains
      // its end.
      attempts: isInternalError(attempt.outcome) && nextStep.kind === 'retry' ? delivery.attempts : number,
      faults,
      next:
        nextStep.kind === 'retry' ? { dueAt: new Date(now.getTime() + nextStep.afterMs) } : { state: nextStep.kind },
      webhook: hasChanged ? { ...health, ...toStored(backoff, moment), isPendingDisable } : null,
      isWarning,
    },
  };
}
