/** The result of a delivery, ready to be recorded. */
import { unsentAttempt, type Attempt } from '../attempt/attempt.ts';
import type { StoredBackoff } from './backoff.ts';
import type { Failures } from './policy.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
  /** Consecutive internal errors (delivery/policy/internal-faults.ts). */
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
  /** Consecutive internal errors, weighted (policy/internal-faults.ts). */
  faults: number;
  next: { state: 'successful' | 'failed' } | { dueAt: Date };
  /** The webhook's state after this attempt; null if unchanged. */
  webhook: (Failures & StoredBackoff & { isPendingDisable: boolean }) | null;
  /**
   * This attempt takes the webhook half the way to being disabled: its store is notified once the entry is recorded.
   */
  isWarning: boolean;
};

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
