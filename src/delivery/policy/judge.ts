/** What an attempt's outcome makes of its delivery and its webhook: pure, ready to be recorded. */
import type { Pending } from '../queue/loaded-deliveries.ts';
import { isInternalError } from '../attempt/http/outcome.ts';
import { deactivates, warns, type DeactivationSettings } from './deactivation.ts';
import { effectOf } from './effect.ts';
import { holdAfter, toStored, type Hold, type Moment } from './backoff.ts';
import { faultsAfter } from './own-faults.ts';
import { healthAfter, pauseMsOf, verdictOn, type Health, type RetryProfile } from './policy.ts';
import type { Entry } from '../record/entry.ts';

export type Judgement = { entry: Entry; health: Health; hold: Hold; isCondemned: boolean };

export const judge = (given: {
  shard: number;
  /** Under which the attempt began. */
  fence: number | undefined;
  delivery: Pending;
  attempt: NonNullable<Entry['attempt']>;
  profile: RetryProfile;
  health: Health;
  hold: Hold;
  /** The attempt began while the breaker was open. */
  isProbe: boolean;
  /** An outcome before this one demands that the webhook is switched off. */
  isCondemned: boolean;
  deactivation: DeactivationSettings;
  moment: Moment;
  random: number;
}): Judgement => {
  const { shard, fence, delivery, attempt, moment } = given;
  const { now } = moment;
  const number = delivery.attempts + 1;
  const faults = faultsAfter(delivery.faults, attempt.outcome);
  const { profile, random } = given;
  const verdict = verdictOn(attempt.outcome, { attempt: number, faults, profile, random });
  const counted = healthAfter(given.health, attempt.outcome, now);
  const { consecutiveFailures } = counted;
  // Until it is done a success takes it back: it arrives there after all.
  const isCondemned =
    consecutiveFailures > 0 &&
    (given.isCondemned || deactivates(counted, attempt.outcome, now, profile, given.deactivation));
  // Of what is switched off nobody is warned any more.
  const isWarning = !isCondemned && warns(counted, attempt.outcome, now, profile, given.deactivation);
  const health = isWarning ? { ...counted, isWarned: true } : counted;
  const hold = holdAfter(given.hold, {
    effect: effectOf(attempt.outcome),
    pauseMs: pauseMsOf(attempt.outcome),
    failures: consecutiveFailures,
    isProbe: given.isProbe,
    nowMs: moment.nowMs,
    random,
  });
  // The first success is noted, and none after it: the next owner has to know whom it may trust with a slot.
  const isFirst = health.isProven !== given.health.isProven;
  const hasChanged = isFirst || hold !== given.hold || consecutiveFailures !== given.health.consecutiveFailures;
  return {
    health,
    hold,
    isCondemned,
    entry: {
      shard,
      fence,
      delivery,
      attempt,
      // What our own faults end shows one attempt more than was charged: the one that says so.
      attempts: isInternalError(attempt.outcome) && verdict.kind === 'retry' ? delivery.attempts : number,
      faults,
      next: verdict.kind === 'retry' ? { dueAt: new Date(now.getTime() + verdict.afterMs) } : { state: verdict.kind },
      webhook: hasChanged ? { ...health, ...toStored(hold, moment), isPendingDisable: isCondemned } : null,
      isWarning,
    },
  };
};
