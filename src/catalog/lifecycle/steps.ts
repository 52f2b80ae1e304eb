/**
 * Derives the lifecycle steps of a subscription from two consecutive versions. Pure, and never throws for any JSON. The table
 * below contains the rules; docs/subscriptions.md shows them with examples.
 */
import { differencesBetween } from './difference.ts';
import { factsOf, type Facts, type Subscription } from './facts.ts';

type Change = {
  /** Undefined for the first version. */
  before: Facts | undefined;
  after: Facts;
  /** Action of the published event: `created`, `modified` or `cancelled`. */
  action: string;
};

/** Returns whether the subscription is active and has no end date. */
const isOngoing = (facts: Facts | undefined): boolean => facts !== undefined && facts.isActive && !facts.hasEnd;

/**
 * Returns whether it became active, or its end date was removed. The start date itself is no activation, because no version is
 * published on that day.
 */
const isActivated = ({ before, after }: Change): boolean =>
  after.isActive && (before?.isActive !== true || (before.hasEnd && !after.hasEnd));

/**
 * Returns whether it was cancelled: an end date was set, also a future one, or it became inactive without one. Becoming inactive
 * on the end date is not a second cancellation.
 */
function isCancelled(change: Change): boolean {
  const { before, after, action } = change;
  const wasOngoing = isOngoing(before) || isActivated(change);
  return (
    (wasOngoing && (!isOngoing(after) || action === 'cancelled')) || (before === undefined && action === 'cancelled')
  );
}

/** A billing may precede the planned date by this much, because dates are often midnights of other time zones. */
const EARLY_MS = 24 * 60 * 60 * 1000;

/**
 * Returns whether the next transaction date advanced because the previous one was reached, and not because it was rescheduled.
 */
const wasDue = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.nextMs !== null &&
  after.nextMs !== null &&
  after.nextMs > before.nextMs &&
  after.startMs === before.startMs &&
  (after.modifiedMs === null || after.modifiedMs >= before.nextMs - EARLY_MS);

/** Returns whether it was billed; if the last transaction is embedded, it must be a new one. */
const isBilled = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  wasDue({ before, after }) && (after.lastTransaction === null || after.lastTransaction !== before.lastTransaction);

/**
 * Returns whether an amount became past due or a first failed date appeared; an amount that follows a known failure is not a new
 * one.
 */
const becamePastDue = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  !before.isPastDue && (after.firstFailedMs === null ? after.isPastDue : after.firstFailedMs !== before.firstFailedMs);

/** Returns whether a further period could not be billed while an amount was past due. */
const becameMorePastDue = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.isPastDue &&
  wasDue({ before, after }) &&
  after.pastDue !== null &&
  before.pastDue !== null &&
  after.pastDue > before.pastDue;

const hasFailed = (change: { before: Facts; after: Facts }): boolean =>
  becamePastDue(change) || becameMorePastDue(change);

const wasRetried = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.pastDue !== after.pastDue || before.error !== after.error || before.firstFailedMs !== after.firstFailedMs;

/** Makes a condition that is false for a first version. */
const later =
  (predicate: (change: Change & { before: Facts }) => boolean) =>
  (change: Change): boolean =>
    change.before !== undefined && predicate({ ...change, before: change.before });

const DEBT = ['past_due_amount', 'first_failed_transaction_date', 'error_message'] as const;

/**
 * `explains`: the properties whose change is explained by the step; `modified` is added for changes that no step explains. In
 * the order in which the steps are published.
 */
const rules = [
  {
    step: 'activated',
    when: isActivated,
    explains: ['is_active', 'start_date', 'end_date', 'next_transaction_date'],
  },
  {
    step: 'recovered',
    when: later(({ before, after }) => before.isPastDue && !after.isPastDue),
    explains: DEBT,
  },
  {
    step: 'billing_success',
    when: later(
      (change) =>
        isBilled(change) &&
        !change.after.isPastDue &&
        !hasFailed(change) &&
        change.before.isActive &&
        !isActivated(change),
    ),
    explains: ['next_transaction_date', 'last_transaction_date', 'error_message'],
  },
  {
    step: 'billing_failure',
    when: later(hasFailed),
    explains: [...DEBT, 'next_transaction_date'],
  },
  {
    step: 'dunning',
    when: later(
      (change) => change.before.isPastDue && change.after.isPastDue && !becameMorePastDue(change) && wasRetried(change),
    ),
    explains: [...DEBT, 'next_transaction_date'],
  },
  {
    step: 'cancelled',
    when: isCancelled,
    explains: ['is_active', 'end_date', 'next_transaction_date', 'cancellation_source'],
  },
] as const satisfies readonly { step: string; when: (change: Change) => boolean; explains: readonly string[] }[];

/** All steps, in the order in which they are published. */
export const STEPS = [...rules.map(({ step }) => step), 'modified'] as const;
export type Step = (typeof STEPS)[number];

/** `steps`: in the order in which they are published. `differing`: names of the properties that differ. */
export type LifecycleChanges = { steps: Step[]; differing: string[] };

/**
 * Returns the steps between two versions; `before` is undefined for the first version. A version without differences is no
 * step, whatever its event.
 */
export function stepsBetween(
  before: Subscription | undefined,
  after: Subscription,
  { action, timeZone }: { action: string; timeZone: string },
): LifecycleChanges {
  const differing = before === undefined ? [] : differencesBetween(before, after, timeZone);
  if (before !== undefined && differing.length === 0) return { steps: [], differing };
  const [was, is] = [before && factsOf(before, timeZone), factsOf(after, timeZone)];
  const change = { before: was, after: is, action };
  const found = rules.filter(({ when }) => when(change));
  const explained = new Set<string>(found.flatMap(({ explains }) => explains));
  const steps: Step[] = found.map(({ step }) => step);
  if (differing.some((name) => !explained.has(name))) steps.push('modified');
  return { steps, differing };
}
