/**
 * The steps in the life of a subscription, from two consecutive versions of it: pure, and total over whatever JSON a
 * publisher sends. The table below is the rules; docs/subscriptions.md shows it with examples.
 */
import { differencesBetween } from './difference.ts';
import { factsOf, type Facts, type Subscription } from './facts.ts';

type Change = {
  /** Undefined for the first version. */
  before: Facts | undefined;
  after: Facts;
  /** Of the event that was published: `created`, `modified` or `cancelled`. */
  action: string;
};

/** Active, and nothing says that it will end. */
const goesOn = (facts: Facts | undefined): boolean => facts !== undefined && facts.isActive && !facts.hasEnd;

/** It became active; or it was about to end, and goes on now. Not when it starts: no version comes on that day. */
const isActivated = ({ before, after }: Change): boolean =>
  after.isActive && (before?.isActive !== true || (before.hasEnd && !after.hasEnd));

/**
 * Once in a life: when an end is set (also one to come) or, without one, when it is switched off. That it is switched off
 * when its end has come is no second one.
 */
const isCancelled = (change: Change): boolean => {
  const { before, after, action } = change;
  const wentOn = goesOn(before) || isActivated(change);
  return (wentOn && (!goesOn(after) || action === 'cancelled')) || (before === undefined && action === 'cancelled');
};

/** A billing may come so much before the moment that was planned: dates are often midnights of other zones. */
const EARLY_MS = 24 * 60 * 60 * 1000;

/** The next date moved on because the one before it had come, and not because somebody postponed or rescheduled it. */
const wasDue = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.nextMs !== null &&
  after.nextMs !== null &&
  after.nextMs > before.nextMs &&
  after.startMs === before.startMs &&
  (after.modifiedMs === null || after.modifiedMs >= before.nextMs - EARLY_MS);

/** Where the last transaction is embedded, there has to be a new one. */
const isBilled = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  wasDue({ before, after }) && (after.lastTransaction === null || after.lastTransaction !== before.lastTransaction);

/** Something came to be owed, or a first failed date appeared; an amount that follows to a known failure is not another. */
const fellBehind = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  !before.isPastDue && (after.firstFailedMs === null ? after.isPastDue : after.firstFailedMs !== before.firstFailedMs);

/** Still owed for one period, and the next one could not be billed either. */
const fellFurtherBehind = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.isPastDue &&
  wasDue({ before, after }) &&
  after.pastDue !== null &&
  before.pastDue !== null &&
  after.pastDue > before.pastDue;

const hasFailed = (change: { before: Facts; after: Facts }): boolean => fellBehind(change) || fellFurtherBehind(change);

const isTriedAgain = ({ before, after }: { before: Facts; after: Facts }): boolean =>
  before.pastDue !== after.pastDue || before.error !== after.error || before.firstFailedMs !== after.firstFailedMs;

/** For steps that a first version cannot show. */
const later =
  (holds: (change: Change & { before: Facts }) => boolean) =>
  (change: Change): boolean =>
    change.before !== undefined && holds({ ...change, before: change.before });

const DEBT = ['past_due_amount', 'first_failed_transaction_date', 'error_message'] as const;

/** `tells`: the properties whose change the step explains; `modified` is for those that none does. In the order of telling. */
const rules = [
  {
    step: 'activated',
    when: isActivated,
    tells: ['is_active', 'start_date', 'end_date', 'next_transaction_date'],
  },
  {
    step: 'recovered',
    when: later(({ before, after }) => before.isPastDue && !after.isPastDue),
    tells: DEBT,
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
    tells: ['next_transaction_date', 'last_transaction_date', 'error_message'],
  },
  {
    step: 'billing_failure',
    when: later(hasFailed),
    tells: [...DEBT, 'next_transaction_date'],
  },
  {
    step: 'dunning',
    when: later(
      (change) =>
        change.before.isPastDue && change.after.isPastDue && !fellFurtherBehind(change) && isTriedAgain(change),
    ),
    tells: [...DEBT, 'next_transaction_date'],
  },
  {
    step: 'cancelled',
    when: isCancelled,
    tells: ['is_active', 'end_date', 'next_transaction_date', 'cancellation_source'],
  },
] as const satisfies readonly { step: string; when: (change: Change) => boolean; tells: readonly string[] }[];

/** In the order in which they are told. */
export const STEPS = [...rules.map(({ step }) => step), 'modified'] as const;
export type Step = (typeof STEPS)[number];

/** What happened between two versions, in the order it is told, and the properties in which they differ. */
export type Told = { steps: Step[]; differing: string[] };

/**
 * `before` is undefined for the first version. A version that says what the one before it said is no step, whatever its
 * event is called.
 */
export const stepsBetween = (
  before: Subscription | undefined,
  after: Subscription,
  { action }: { action: string },
): Told => {
  const differing = before === undefined ? [] : differencesBetween(before, after);
  if (before !== undefined && differing.length === 0) return { steps: [], differing };
  const change = { before: before === undefined ? undefined : factsOf(before), after: factsOf(after), action };
  const found = rules.filter(({ when }) => when(change));
  const told = new Set<string>(found.flatMap(({ tells }) => tells));
  const steps: Step[] = found.map(({ step }) => step);
  if (differing.some((name) => !told.has(name))) steps.push('modified');
  return { steps, differing };
};
