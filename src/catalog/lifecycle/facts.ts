/**
 * What a version of a subscription says of its life, read from a representation that is open JSON: whatever is not what
 * it should be says nothing, and nothing here throws.
 */
import { parseDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';

export type Subscription = JsonObject;

export type Facts = {
  isActive: boolean;
  /** An end is set, in the past or to come. */
  hasEnd: boolean;
  startMs: number | null;
  nextMs: number | null;
  /** Whether money is owed: by the amount, or where none is told, by the date of a failed transaction. */
  isPastDue: boolean;
  pastDue: number | null;
  firstFailedMs: number | null;
  error: string | null;
  modifiedMs: number | null;
  /** The id of the transaction that was the last one, where it is embedded. */
  lastTransaction: string | null;
};

/** A text, a number or a truth as a text; '' for all else. */
const readWord = (value: Value | undefined): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';

/** `true`, `1` and their texts. */
export const readFlag = (value: Value | undefined): boolean => ['true', '1'].includes(readWord(value));

/** `0000-00-00` is no date and stands for none. */
const readDateMs = (value: Value | undefined): number | null =>
  typeof value === 'string' ? (parseDate(value)?.getTime() ?? null) : null;

const AMOUNT = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/** A number, or a decimal number as a text. */
const readAmount = (value: Value | undefined): number | null => {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && AMOUNT.test(value) ? Number(value) : null;
};

const readLastTransaction = (subscription: Subscription): string | null => {
  const last = embeddedUnder(subscription, 'last_transaction');
  return (isObject(last) ? readWord(last['id']) : '') || null;
};

export const factsOf = (subscription: Subscription): Facts => {
  const pastDue = readAmount(subscription['past_due_amount']);
  const firstFailedMs = readDateMs(subscription['first_failed_transaction_date']);
  return {
    isActive: readFlag(subscription['is_active']),
    hasEnd: readDateMs(subscription['end_date']) !== null,
    startMs: readDateMs(subscription['start_date']),
    nextMs: readDateMs(subscription['next_transaction_date']),
    isPastDue: pastDue === null ? firstFailedMs !== null : pastDue > 0,
    pastDue,
    firstFailedMs,
    error: readWord(subscription['error_message']) || null,
    modifiedMs: readDateMs(subscription['date_modified']),
    lastTransaction: readLastTransaction(subscription),
  };
};

/** How the value of a property that means something here is compared: so `0` and `"0.00"` are the same. */
const readers: Readonly<Record<string, (value: Value | undefined) => unknown>> = {
  is_active: readFlag,
  start_date: readDateMs,
  next_transaction_date: readDateMs,
  end_date: readDateMs,
  first_failed_transaction_date: readDateMs,
  past_due_amount: (value) => readAmount(value) ?? 0,
  error_message: (value) => readWord(value),
};

/** Without what changes by itself or by the way a thing is written: dates of change, links, the order of members. */
const settled = (value: Value | undefined): Value => {
  if (Array.isArray(value)) return (value as readonly Value[]).map(settled);
  if (!isObject(value)) return value ?? null;
  const names = Object.keys(value).filter((name) => name !== 'date_modified' && name !== '_links');
  return Object.fromEntries(names.toSorted().map((name) => [name, settled(value[name])]));
};

/** What a value says, in a form that is the same for the same; a property that is not there says as much as `null`. */
export const meaningOf = (name: string, value: Value | undefined): string =>
  (Object.hasOwn(readers, name) ? JSON.stringify(readers[name]?.(value)) : JSON.stringify(settled(value))) ?? 'null';
