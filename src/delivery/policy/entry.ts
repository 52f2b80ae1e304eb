/** Decides what follows from an attempt for its delivery and its webhook, as an entry ready to be recorded. Pure. */
import { unsentAttempt, type Attempt } from '../attempt/attempt.ts';
import { isInternalError } from '../attempt/http/attempt-outcome.ts';
import type { RetryProfile } from '../attempt/delivery-target.ts';
import {
  backoffAfter,
  effectOf,
  faultsAfter,
  healthAfter,
  nextStepAfter,
  pauseMsOf,
  requiresDisable,
  requiresWarning,
  toStored,
  type Backoff,
  type DeactivationSettings,
  type Failures,
  type Health,
  type Moment,
  type StoredBackoff,
} from './policy.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
  /** Consecutive internal errors (`faultsAfter`). */
  faults: number;
  /**
   * When the next attempt is due, by the clock of the process that wrote it; of a first attempt, the time of
   * publication.
   */
  dueAt: Date;
};

/** A shard with the fencing token under which a delivery was dequeued; undefined if the shard was not owned. */
export type Fenced = { shard: number; fence: number | undefined };

export type Entry = Fenced & {
  delivery: Pending;
  /** Null if the delivery ends without an attempt, such as when its webhook is disabled. */
  attempt: Attempt | null;
  /** Number of charged attempts, including this one. */
  attempts: number;
  /** Consecutive internal errors, weighted (`faultsAfter`). */
  faults: number;
  next: { state: 'successful' | 'failed' } | { dueAt: Date };
  /** The webhook's state after this attempt; null if unchanged. */
  webhook: (Failures & StoredBackoff & { isPendingDisable: boolean }) | null;
  /**
   * This attempt takes the webhook halfway to being disabled: its store is notified once the entry is recorded.
   */
  isWarning: boolean;
};

export type Decision = { entry: Entry; health: Health; backoff: Backoff; isPendingDisable: boolean };

export function decide(input: {
  shard: number;
  /** The fencing token of the shard when the attempt started. */
  fence: number | undefined;
  delivery: Pending;
  attempt: Attempt;
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

/** Returns the entry of a delivery that fails without an attempt: its webhook or its event is gone. */
export function ended({ shard, fence }: Fenced, delivery: Pending): Entry {
  return {
    shard,
    fence,
    delivery,
    attempt: null,
    attempts: delivery.attempts,
    faults: delivery.faults,
    next: { state: 'failed' },
    webhook: null,
    isWarning: false,
  };
}

/**
 * Returns the entry of a delivery that fails by an internal error: the attempt that says so is shown in addition to the
 * charged ones.
 */
export function deadLetter({ shard, fence }: Fenced, delivery: Pending, why: string, now: Date): Entry {
  return {
    shard,
    fence,
    delivery,
    attempt: unsentAttempt('threw', why, now),
    attempts: delivery.attempts + 1,
    faults: delivery.faults,
    next: { state: 'failed' },
    webhook: null,
    isWarning: false,
  };
}

/** Numbers, names of outcomes and dates, without the response. */
const ROW_BYTES = 200;
/** A UTF-16 code unit has up to 3 bytes in UTF-8. */
const BYTES_PER_CHARACTER = 3;

/** Returns an upper bound of the entry's size in the record statement. */
export function bytesOf({ attempt }: Entry): number {
  const reply = attempt?.outcome.reply;
  return ROW_BYTES + BYTES_PER_CHARACTER * ((reply?.headers.length ?? 0) + (reply?.body.length ?? 0));
}
