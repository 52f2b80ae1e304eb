/** What a subscription brings in a month: pure, exact decimals, and no representation is so strange that it throws. */
import { formatDate, parseDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from './document.ts';
import { currencyOf } from './kinds.ts';
import { readFlag } from './lifecycle/facts.ts';
import { amountOf } from './revenue/amount.ts';
import { millionthsOf, textOfMillionths } from './revenue/decimal.ts';
import { periodsAMonth } from './revenue/frequency.ts';

/** `monthly`: a decimal number with at most six places, as text. Active from `startDay` on and no longer on `endDay`. */
export type Term = {
  currency: string;
  monthly: string;
  isActive: boolean;
  startDay: string | null;
  endDay: string | null;
};

/** ISO 4217: no currency. */
const NO_CURRENCY = 'XXX';
/** 10^15 a month: what is more is nobody's revenue, and a sum over it would lose sight of everybody else's. */
const MONTHLY_LIMIT_MILLIONTHS = 10n ** 21n;

/** Nothing where the frequency or the amount says nothing, or what it says is below zero. */
const monthlyOf = (frequency: Value | undefined, template: JsonObject): string => {
  const periods = periodsAMonth(frequency);
  const amount = amountOf(template);
  if (periods === undefined || amount === undefined || amount.digits < 0n) return '0';
  const millionths = millionthsOf(amount, periods);
  return millionths < MONTHLY_LIMIT_MILLIONTHS ? textOfMillionths(millionths) : '0';
};

const WITHOUT_ZONE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?$/;
const STORABLE = /^(?!0000)\d{4}-\d\d-\d\d$/;

/** The day on the store's calendar; a date that names no zone means the store's own. Null where it is none (`0000-00-00`). */
const dayOf = (value: Value | undefined, timeZone: string): string | null => {
  const at = typeof value === 'string' ? parseDate(value) : undefined;
  if (at === undefined || typeof value !== 'string') return null;
  const day = (WITHOUT_ZONE.test(value) ? value : formatDate(at, timeZone)).slice(0, 10);
  return STORABLE.test(day) ? day : null;
};

/** The term that a subscription's representation says, its days those of the time zone. */
export const termOf = (subscription: { readonly [name: string]: Value }, timeZone: string): Term => {
  const found = embeddedUnder(subscription, 'transaction_template');
  const template = isObject(found) ? found : {};
  return {
    currency: currencyOf(subscription) ?? currencyOf(template) ?? NO_CURRENCY,
    monthly: monthlyOf(subscription['frequency'], template),
    isActive: readFlag(subscription['is_active']),
    startDay: dayOf(subscription['start_date'], timeZone),
    endDay: dayOf(subscription['end_date'], timeZone),
  };
};
