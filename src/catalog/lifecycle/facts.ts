/**
 * Reads the facts of a subscription's lifecycle from its representation, which is open JSON: values of an unexpected type are
 * ignored, and nothing throws.
 */
import { parseDate } from '#hypermedia/date.ts';
import { isNumber, type Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';

export type Subscription = JsonObject;

export type Facts = {
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
export function factsOf(subscription: Subscription, timeZone: string): Facts {
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
export function comparableOf(name: string, value: Value | undefined, timeZone: string): string {
  return (
    (Object.hasOwn(readers, name)
      ? JSON.stringify(readers[name]?.(value, timeZone))
      : JSON.stringify(normalized(value))) ?? 'null'
  );
}
