/** Amounts of money: as the currency writes them, and never another amount than was said. */
import type { Value } from '../document.ts';

const formats = new Map<string, Intl.NumberFormat>();
/** There are about 180; a publisher can make up more. Making one costs 40 µs. */
const FORMATS_MAX = 200;

const formatOf = (currency: string): Intl.NumberFormat => {
  const known = formats.get(currency);
  if (known !== undefined) return known;
  // More digits than the currency has are shown as they came: a rounded price is another price.
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, maximumFractionDigits: 20 });
  if (formats.size >= FORMATS_MAX) formats.clear();
  formats.set(currency, format);
  return format;
};

/** `€1,234.50`. Decimals that came as text stay exact; what is no amount is undefined, and no currency leaves the number. */
export const shownMoney = (value: Value, currency: string | undefined): string | undefined => {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : '';
  if (!/^-?[0-9]{1,30}(?:\.[0-9]{1,20})?$/.test(text)) return undefined;
  if (currency === undefined || !/^[A-Za-z]{3}$/.test(currency)) return text;
  return formatOf(currency.toUpperCase()).format(text as `${number}`);
};
