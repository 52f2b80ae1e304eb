/**
 * Derives the lifecycle steps of a subscription from two consecutive versions. Pure, and never throws for any JSON. The table
 * below contains the rules; docs/subscriptions.md shows them with examples.
 */
import { parseDate } from '#hypermedia/date.ts';
import { isNumber } from '#core/exact-number.ts';
import { type Value, isScalar } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from './resource-document.ts';

// Reads the facts of a subscription's lifecycle from its representation, which is open JSON: values of an unexpected type are
// ignored, and nothing throws.

export type Subscription = JsonObject;

type Facts = {
  isActive: boolean;
  /** Whether an end date is set, in the past or the future. */
  hasEnd: boolean;
  startMs: number | null;
  nextMs: number | null;
  /** Whether an amount is past due; if the amount is unknown, whether there is a date of a failed transaction. */
  isPastDue: boolean;
  pastDue: number | null;
  firstFailedMs: number | null;
  error: string | null;
  modifiedMs: number | null;
  /** Id of the last transaction, if it is embedded. */
  lastTransaction: string | null;
};

/** Returns a string, number or boolean as text; '' for anything else. */
const readWord = (value: Value | undefined): string =>
  typeof value === 'string' || isNumber(value) || typeof value === 'boolean' ? String(value) : '';

/** Returns true for `true`, `1` (also `1.0`) and their texts. */
export function readFlag(value: Value | undefined): boolean {
  return isNumber(value) ? Number(value) === 1 : ['true', '1'].includes(readWord(value));
}

/** Returns null for `0000-00-00`, which means no date. */
const readDateMs = (value: Value | undefined, timeZone: string): number | null =>
  typeof value === 'string' ? (parseDate(value, timeZone)?.getTime() ?? null) : null;

const AMOUNT = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/** Returns a number or a decimal text as a number. */
function readAmount(value: Value | undefined): number | null {
  if (isNumber(value)) return Number(value);
  return typeof value === 'string' && AMOUNT.test(value) ? Number(value) : null;
}

function readLastTransaction(subscription: Subscription): string | null {
  const last = embeddedUnder(subscription, 'last_transaction');
  return (isObject(last) ? readWord(last['id']) : '') || null;
}

/** `timeZone`: of the store, for dates without an offset. */
function factsOf(subscription: Subscription, timeZone: string): Facts {
  const pastDue = readAmount(subscription['past_due_amount']);
  const firstFailedMs = readDateMs(subscription['first_failed_transaction_date'], timeZone);
  return {
    isActive: readFlag(subscription['is_active']),
    hasEnd: readDateMs(subscription['end_date'], timeZone) !== null,
    startMs: readDateMs(subscription['start_date'], timeZone),
    nextMs: readDateMs(subscription['next_transaction_date'], timeZone),
    isPastDue: pastDue === null ? firstFailedMs !== null : pastDue > 0,
    pastDue,
    firstFailedMs,
    error: readWord(subscription['error_message']) || null,
    modifiedMs: readDateMs(subscription['date_modified'], timeZone),
    lastTransaction: readLastTransaction(subscription),
  };
}

/** How known properties are compared, so that `0` and `"0.00"` are equal. */
const readers: Readonly<Record<string, (value: Value | undefined, timeZone: string) => unknown>> = {
  is_active: readFlag,
  start_date: readDateMs,
  next_transaction_date: readDateMs,
  end_date: readDateMs,
  first_failed_transaction_date: readDateMs,
  past_due_amount: (value) => readAmount(value) ?? 0,
  error_message: (value) => readWord(value),
};

/** Different numbers of at most so many characters are different doubles: those of 16 digits are not. */
const DOUBLE_CHARACTERS = 15;

/** Normalizes a value for comparison: 12.50 is 12.5; drops modification dates and links and sorts the members. */
function normalized(value: Value | undefined): Value {
  if (Array.isArray(value)) return (value as readonly Value[]).map(normalized);
  if (isNumber(value)) return String(value).length <= DOUBLE_CHARACTERS ? Number(value) : value;
  if (!isObject(value)) return value ?? null;
  const names = Object.keys(value).filter((name) => name !== 'date_modified' && name !== '_links');
  return Object.fromEntries(names.toSorted().map((name) => [name, normalized(value[name])]));
}

/** Returns a text that is equal for equal values; a missing property equals `null`. */
function comparableOf(name: string, value: Value | undefined, timeZone: string): string {
  return (
    (Object.hasOwn(readers, name)
      ? JSON.stringify(readers[name]?.(value, timeZone))
      : JSON.stringify(normalized(value))) ?? 'null'
  );
}

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

/** Returns the steps of the deletion of a subscription: it is cancelled, unless it has ended before. */
export function stepsOfDeletion(before: Subscription | undefined, timeZone: string): LifecycleChanges {
  const steps: Step[] = before !== undefined && isOngoing(factsOf(before, timeZone)) ? ['cancelled'] : [];
  return { steps, differing: [] };
}

// Finds the properties in which two versions of a subscription differ.

/** Properties without a meaning for the lifecycle: id, modification date, links, and copies of other resources. */
const IGNORED: ReadonlySet<string> = new Set(['id', 'date_modified', '_links', '_embedded']);

/** Embedded resources that belong to the subscription. Transactions are its history, and a customer changes independently. */
const OWN_RELATIONS = ['transaction_template', 'attributes'] as const;

/** Identical values are skipped without a comparison of their contents. */
const differs = (name: string, was: Value | undefined, is: Value | undefined, timeZone: string): boolean =>
  was !== is && comparableOf(name, was, timeZone) !== comparableOf(name, is, timeZone);

/** Compares a relation only if both versions embed it, because a publisher need not embed everything each time. */
function differsIn(before: Subscription, after: Subscription, relation: string, timeZone: string): boolean {
  const [was, is] = [embeddedUnder(before, relation), embeddedUnder(after, relation)];
  return was !== undefined && is !== undefined && differs(relation, was, is, timeZone);
}

/** Returns an own property; the name may come from the publisher. */
function memberOf(version: Subscription, name: string): Value | undefined {
  return Object.hasOwn(version, name) ? version[name] : undefined;
}

/** Returns the names of the properties and own relations that differ, in the order of the later version. */
export function differencesBetween(before: Subscription, after: Subscription, timeZone: string): string[] {
  const names = [...new Set([...Object.keys(after), ...Object.keys(before)])].filter((name) => !IGNORED.has(name));
  return [
    ...names.filter((name) => differs(name, memberOf(before, name), memberOf(after, name), timeZone)),
    ...OWN_RELATIONS.filter((relation) => differsIn(before, after, relation, timeZone)),
  ];
}

// Summarizes the differences between two versions of a subscription. The summary is short because every step contains it.

/** Maximum number of properties, or of items in a list. */
const ENTRIES_MAX = 20;
export const SHORT_LENGTH_MAX = 200;
/** Enough for twenty items with a name and a price; twenty items with the longest texts would make a step of 50 KiB. */
const LIST_MAX_BYTES = 2 * 1024;

/** Returns whether a value is neither an object, nor a list, nor a long text. */
export function isShort(value: Value | undefined): boolean {
  if (typeof value === 'string') return value.length <= SHORT_LENGTH_MAX;
  return value === undefined || isScalar(value);
}

type Sides = readonly [was: Value, is: Value];

const isSame = ([was, is]: Sides): boolean => JSON.stringify(was) === JSON.stringify(is);

/** Properties in the summary of an item or an attribute. */
const SUMMARY_PROPERTIES = ['id', 'code', 'name', 'price', 'quantity', 'value'] as const;

const summarize = (item: JsonObject): JsonObject =>
  Object.fromEntries(
    SUMMARY_PROPERTIES.flatMap((name): [string, Value][] => {
      const value = memberOf(item, name);
      return value !== undefined && isShort(value) ? [[name, value]] : [];
    }),
  );

/** Returns the summaries of as many items as fit. */
function summarizeList(value: Value | undefined): Value {
  const all = (Array.isArray(value) ? (value as readonly Value[]) : []).filter(isObject).slice(0, ENTRIES_MAX);
  let bytes = 0;
  return all.map(summarize).filter((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes <= LIST_MAX_BYTES;
  });
}

/** Returns the short values of the properties that differ. */
const membersOf = (was: JsonObject, is: JsonObject, names: readonly string[]): [name: string, sides: Sides][] =>
  names
    .filter((name) => name.length <= SHORT_LENGTH_MAX)
    .map((name) => [name, memberOf(was, name), memberOf(is, name)] as const)
    .filter(([, ...sides]) => sides.every(isShort) && sides.some((side) => side !== undefined))
    .map(([name, before, after]) => [name, [before ?? null, after ?? null]]);

const sideOf = (entries: readonly [name: string, sides: Sides][], side: 0 | 1): JsonObject =>
  Object.fromEntries(entries.slice(0, ENTRIES_MAX).map(([name, sides]) => [name, sides[side]]));

/** Returns the differences of an embedded list, or of an embedded template and its items. */
function embeddedSides(was: Value | undefined, is: Value | undefined, timeZone: string): Sides {
  if (!isObject(was) || !isObject(is)) return [summarizeList(was), summarizeList(is)];
  const items: Sides = [summarizeList(embeddedUnder(was, 'items')), summarizeList(embeddedUnder(is, 'items'))];
  const entries = membersOf(was, is, differencesBetween(was, is, timeZone));
  if (!isSame(items)) entries.unshift(['items', items]);
  return [sideOf(entries, 0), sideOf(entries, 1)];
}

/**
 * Returns the changed properties before and after. `differing` is the result of `differencesBetween`; long and nested values
 * are omitted.
 */
export function changesBetween(
  before: Subscription,
  after: Subscription,
  { differing, timeZone }: { differing: readonly string[]; timeZone: string },
): { before: JsonObject; after: JsonObject } {
  const relations = OWN_RELATIONS.filter((name) => differing.includes(name)).map((name): [string, Sides] => [
    name,
    embeddedSides(embeddedUnder(before, name), embeddedUnder(after, name), timeZone),
  ]);
  const entries = [...relations.filter(([, sides]) => !isSame(sides)), ...membersOf(before, after, differing)];
  return { before: sideOf(entries, 0), after: sideOf(entries, 1) };
}
