/**
 * Computes the monthly recurring revenue of a subscription. Pure, with exact decimals; malformed representations never cause an
 * error.
 */
import { formatDate, parseDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from './document.ts';
import { currencyOf } from './kinds.ts';
import { readFlag } from './lifecycle/facts.ts';
import { amountOf } from './revenue/amount.ts';
import { millionthsOf, textOfMillionths } from './revenue/decimal.ts';
import { periodsPerMonth } from './revenue/frequency.ts';

/** `monthly`: a decimal number with at most six decimal places, as text. Active from `startDay` to the day before `endDay`. */
export type Term = {
  currency: string;
  monthly: string;
  isActive: boolean;
  startDay: string | null;
  endDay: string | null;
};

/** ISO 4217: no currency. */
const NO_CURRENCY = 'XXX';
/** 10^15 a month. A larger amount is not plausible and would hide all others in a sum. */
const MONTHLY_LIMIT_MILLIONTHS = 10n ** 21n;

/** Returns '0' if the frequency or the amount is missing, unreadable or negative. */
function monthlyOf(frequency: Value | undefined, template: JsonObject): string {
  const periods = periodsPerMonth(frequency);
  const amount = amountOf(template);
  if (periods === undefined || amount === undefined || amount.digits < 0n) return '0';
  const millionths = millionthsOf(amount, periods);
  return millionths < MONTHLY_LIMIT_MILLIONTHS ? textOfMillionths(millionths) : '0';
}

const WITHOUT_ZONE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?$/;
const STORABLE = /^(?!0000)\d{4}-\d\d-\d\d$/;

/**
 * Returns the day in the store's time zone, which is also assumed for dates without a zone; null if it is not a date
 * (`0000-00-00`).
 */
function dayOf(value: Value | undefined, timeZone: string): string | null {
  const at = typeof value === 'string' ? parseDate(value) : undefined;
  if (at === undefined || typeof value !== 'string') return null;
  const day = (WITHOUT_ZONE.test(value) ? value : formatDate(at, timeZone)).slice(0, 10);
  return STORABLE.test(day) ? day : null;
}

/** Returns the revenue term of a subscription; its days are in the given time zone. */
export function termOf(subscription: { readonly [name: string]: Value }, timeZone: string): Term {
  const found = embeddedUnder(subscription, 'transaction_template');
  const template = isObject(found) ? found : {};
  return {
    currency: currencyOf(subscription) ?? currencyOf(template) ?? NO_CURRENCY,
    monthly: monthlyOf(subscription['frequency'], template),
    isActive: readFlag(subscription['is_active']),
    startDay: dayOf(subscription['start_date'], timeZone),
    endDay: dayOf(subscription['end_date'], timeZone),
  };
}
