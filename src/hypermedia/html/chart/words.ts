/** Amounts, numbers and days beside a chart, in few letters. */
import { isCurrency, roundedMoney } from '../money.ts';

/** `€1.25K`. Beyond a thousand million million there are no words that anybody reads: `1.2E18`. */
export const briefAmount = (value: number, currency: string): string =>
  new Intl.NumberFormat('en', {
    ...(isCurrency(currency) && { style: 'currency', currency }),
    notation: Math.abs(value) < 1e15 ? 'compact' : 'scientific',
    maximumSignificantDigits: 3,
  }).format(value);

/** With the decimals that the currency has: a yearly price is a month's with millionths, which nobody wants to read. */
export const amount = (value: number, currency: string): string =>
  Math.abs(value) < 1e15 ? roundedMoney(value, currency) : briefAmount(value, currency);

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** `19 Nov 2026`, as the cells of tables have it. */
export const shortDay = (written: string): string => {
  const [year = '', month, day] = written.split('-');
  return `${Number(day)} ${MONTHS[Number(month) - 1] ?? ''} ${year}`;
};

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const brief = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** `12,500`. */
export const wholeNumber = (value = 0): string => whole.format(value);

/** `12.5K`. */
export const briefNumber = (value: number): string => brief.format(value);
