/**
 * Computes the monthly recurring revenue of a subscription. Pure, with exact decimals; malformed representations never cause an
 * error.
 */
import { formatDate, parseDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject, currencyOf } from './resource-document.ts';
import { readFlag } from './subscription-steps.ts';
import { millionthsOf, textOfMillionths, plus, readAmount, times, ZERO, type Decimal } from '#core/exact-number.ts';

// Converts the billing frequency of a subscription to periods per month.

type Fraction = { numerator: bigint; denominator: bigint };

const FREQUENCY = /^(\d{1,4})([dwmy])$/;

/**
 * Returns the number of periods of `30d`, `2w`, `1m`, `1y` or `.5m` (twice a month) in a month; undefined for other values. A
 * month is a twelfth of a year of 365 days, so a subscription has the same monthly revenue in February and in March.
 */
function periodsPerMonth(frequency: unknown): Fraction | undefined {
  if (frequency === '.5m') return { numerator: 2n, denominator: 1n };
  const [, count = '0', unit = ''] = typeof frequency === 'string' ? (FREQUENCY.exec(frequency) ?? []) : [];
  const n = BigInt(count);
  if (n === 0n) return undefined;
  switch (unit) {
    case 'd':
      return { numerator: 365n, denominator: 12n * n };
    case 'w':
      return { numerator: 365n, denominator: 84n * n };
    case 'm':
      return { numerator: 1n, denominator: n };
    default:
      return { numerator: 1n, denominator: 12n * n };
  }
}

// Computes the amount of one period of a subscription from its transaction template.

const ONE: Decimal = { digits: 1n, places: 0 };

function objectsUnder(resource: JsonObject, relation: string): JsonObject[] {
  const value = embeddedUnder(resource, relation);
  return Array.isArray(value) ? (value as readonly JsonObject[]).filter(isObject) : [];
}

function decimalOf(resource: JsonObject, name: string, absent: Decimal): Decimal | undefined {
  const value = resource[name];
  return value === undefined || value === null ? absent : readAmount(value);
}

/** Returns (price + price changes of its options) × quantity; undefined if one of them is not a number. */
function amountOfItem(item: JsonObject): Decimal | undefined {
  let each = decimalOf(item, 'price', ZERO);
  for (const option of objectsUnder(item, 'item_options')) {
    const change = decimalOf(option, 'price_mod', ZERO);
    each = each && change && plus(each, change);
  }
  const quantity = decimalOf(item, 'quantity', ONE);
  return each && quantity && times(each, quantity);
}

/**
 * Returns the sum of the template's items, because only these recur; if it embeds none, its total_item_price, else its
 * total_order. Returns undefined if that is not a number.
 */
function amountOf(template: JsonObject): Decimal | undefined {
  const items = objectsUnder(template, 'items');
  if (items.length === 0) {
    return readAmount(template['total_item_price'] ?? template['total_order'] ?? 0);
  }
  return items
    .map(amountOfItem)
    .reduce((sum, amount) => sum && amount && plus(sum, amount), ZERO as Decimal | undefined);
}

/** `monthly`: a decimal number with at most six decimal places, as text. Active from `startDay` to the day before `endDay`. */
export type Term = {
  currency: string;
  monthly: string;
  isActive: boolean;
  startDay: string | null;
  endDay: string | null;
};

/** ISO 4217: no currency. */
export const NO_CURRENCY = 'XXX';
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
