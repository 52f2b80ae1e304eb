/** Amounts of money: as the currency writes them, and never another amount than was said. */
import type { Value } from '../document.ts';

const formats = new Map<string, Intl.NumberFormat>();
/** There are about 180; a publisher can make up more. Making one costs 40 µs. */
const FORMATS_MAX = 200;

/** Of ISO 4217, without `XXX`, which says there that no currency is meant. */
export const isCurrency = (code: string): boolean => /^[A-Za-z]{3}$/.test(code) && code.toUpperCase() !== 'XXX';

type Digits = 'all' | 'usual';

const makeFormat = (currency: string, digits: Digits): Intl.NumberFormat => {
  if (!isCurrency(currency)) return new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
  // More digits than the currency has are shown as they came: a rounded price is another price.
  const more = digits === 'all' ? { maximumFractionDigits: 20 } : {};
  return new Intl.NumberFormat('en', { style: 'currency', currency, ...more });
};

const formatOf = (currency: string, digits: Digits): Intl.NumberFormat => {
  const name = `${currency} ${digits}`;
  const known = formats.get(name);
  if (known !== undefined) return known;
  const format = makeFormat(currency, digits);
  if (formats.size >= FORMATS_MAX) formats.clear();
  formats.set(name, format);
  return format;
};

/** `€1,234.50`. Decimals that came as text stay exact; what is no amount is undefined, and no currency leaves the number. */
export const shownMoney = (value: Value, currency: string | undefined): string | undefined => {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : '';
  if (!/^-?[0-9]{1,30}(?:\.[0-9]{1,20})?$/.test(text)) return undefined;
  if (currency === undefined || !isCurrency(currency)) return text;
  return formatOf(currency.toUpperCase(), 'all').format(text as `${number}`);
};

/** With the decimals that the currency has, and two where there is none: sums, which nobody pays. */
export const roundedMoney = (value: number, currency: string): string => formatOf(currency, 'usual').format(value);
