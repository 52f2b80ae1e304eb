/** Formats amounts of money as usual for the currency, without changing the amount. */
import { isNumber } from '#core/exact-number.ts';
import { type Value } from '../document.ts';

const formats = new Map<string, Intl.NumberFormat>();
/** There are about 180 currencies, but publishers may send others. Creating a format costs 40 µs. */
const FORMATS_MAX = 200;

/** Returns whether the code is one of ISO 4217 except `XXX` (no currency). */
export function isCurrency(code: string): boolean {
  return /^[A-Za-z]{3}$/.test(code) && code.toUpperCase() !== 'XXX';
}

type Digits = 'all' | 'usual';

function makeFormat(currency: string, digits: Digits): Intl.NumberFormat {
  if (!isCurrency(currency)) return new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
  // Additional digits are kept: a rounded price is another price.
  const more = digits === 'all' ? { maximumFractionDigits: 20 } : {};
  return new Intl.NumberFormat('en', { style: 'currency', currency, ...more });
}

function formatOf(currency: string, digits: Digits): Intl.NumberFormat {
  const name = `${currency} ${digits}`;
  const known = formats.get(name);
  if (known !== undefined) return known;
  const format = makeFormat(currency, digits);
  if (formats.size >= FORMATS_MAX) formats.clear();
  formats.set(name, format);
  return format;
}

/**
 * Returns `€1,234.50`. Decimals in a text stay exact; undefined for other values; the number alone without a currency.
 */
export function shownMoney(value: Value, currency: string | undefined): string | undefined {
  const text = isNumber(value) || typeof value === 'string' ? String(value) : '';
  if (!/^-?[0-9]{1,30}(?:\.[0-9]{1,20})?$/.test(text)) return undefined;
  if (currency === undefined || !isCurrency(currency)) return text;
  return formatOf(currency.toUpperCase(), 'all').format(text as `${number}`);
}

/** Rounds to the decimals of the currency, or two: for sums, which are not paid. */
export function roundedMoney(value: number, currency: string): string {
  return formatOf(currency, 'usual').format(value);
}
