/** What became of a delivery, ready to be written down. */
import type { Wire } from '../attempt/http/exchange.ts';
import type { Outcome } from '../attempt/http/outcome.ts';
import type { Pending } from '../queue/loaded-deliveries.ts';
import type { StoredHold } from '../policy/backoff.ts';
import type { Failures } from '../policy/policy.ts';

/** Without `wire` where nothing was put on it. */
export type Attempt = { startedAt: Date; durationMs: number; outcome: Outcome; wire?: Wire };

/** A shard as it was ours when something was taken to be sent; undefined where it was not. */
export type Fenced = { shard: number; fence: number | undefined };

export type Entry = Fenced & {
  delivery: Pending;
  /** Null where the delivery ends without an attempt: its webhook was switched off. */
  attempt: Attempt | null;
  /** Attempts charged so far, this one included. */
  attempts: number;
  /** Faults of our own in a row. */
  faults: number;
  next: { state: 'successful' | 'failed' } | { dueAt: Date };
  /** The webhook's state after this one; null where it did not change. */
  webhook: (Failures & StoredHold & { isPendingDisable: boolean }) | null;
  /** It is this one that takes the webhook half the way to being switched off: the store is told once it is recorded. */
  isWarning: boolean;
};

/** A delivery that ends without an attempt: its webhook is gone, or its event is. */
export const ended = ({ shard, fence }: Fenced, delivery: Pending): Entry => ({
  shard,
  fence,
  delivery,
  attempt: null,
  attempts: delivery.attempts,
  faults: delivery.faults,
  next: { state: 'failed' },
  webhook: null,
  isWarning: false,
});

/** A delivery that we give up by our own fault: it shows one attempt more than was charged, the one that says so. */
export const deadLetter = ({ shard, fence }: Fenced, delivery: Pending, why: string, now: Date): Entry => ({
  shard,
  fence,
  delivery,
  attempt: { startedAt: now, durationMs: 0, outcome: { kind: 'threw', why, reply: null } },
  attempts: delivery.attempts + 1,
  faults: delivery.faults,
  next: { state: 'failed' },
  webhook: null,
  isWarning: false,
});

/** Beside the answer: numbers, names of outcomes, dates. */
const ROW_BYTES = 200;
/** A character of JavaScript's is up to 3 bytes of UTF-8. */
const BYTES_PER_CHARACTER = 3;

/** What an entry weighs in the statement that writes it, at most. */
export const bytesOf = ({ attempt }: Entry): number => {
  const reply = attempt?.outcome.reply;
  return ROW_BYTES + BYTES_PER_CHARACTER * ((reply?.headers.length ?? 0) + (reply?.body.length ?? 0));
};
