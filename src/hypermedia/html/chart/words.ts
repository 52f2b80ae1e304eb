/** Short texts of amounts, numbers and days for charts. */
import { isCurrency, roundedMoney } from '../money.ts';

/** Returns `€1.25K`; from 10¹⁵ in scientific notation: `1.2E18`. */
export function briefAmount(value: number, currency: string): string {
  return new Intl.NumberFormat('en', {
    ...(isCurrency(currency) && { style: 'currency', currency }),
    notation: Math.abs(value) < 1e15 ? 'compact' : 'scientific',
    maximumSignificantDigits: 3,
  }).format(value);
}

/** Returns an amount with the decimals of its currency: a yearly price divided by months has millionths. */
export function amount(value: number, currency: string): string {
  return Math.abs(value) < 1e15 ? roundedMoney(value, currency) : briefAmount(value, currency);
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** Returns `19 Nov 2026`, as in table cells. */
export function shortDay(written: string): string {
  const [year = '', month, day] = written.split('-');
  return `${Number(day)} ${MONTHS[Number(month) - 1] ?? ''} ${year}`;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const brief = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** Returns `12,500`. */
export function wholeNumber(value = 0): string {
  return whole.format(value);
}

/** Returns `12.5K`. */
export function briefNumber(value: number): string {
  return brief.format(value);
}
