/**
 * The independent calculation: a store's year replayed day by day from the published versions, with fractions that
 * are rounded only once, and with sets of subscriptions. Uses no code of the product.
 */
import type { Change } from './year.ts';

type Fraction = [bigint, bigint];

function fractionOf(text: string): Fraction {
  const [whole = '', decimals = ''] = text.split('.');
  return [BigInt(whole + decimals), BigInt(`1${'0'.repeat(decimals.length)}`)];
}
const add = ([a, b]: Fraction, [c, d]: Fraction): Fraction => [a * d + c * b, b * d];
const multiply = ([a, b]: Fraction, [c, d]: Fraction): Fraction => [a * c, b * d];

const MONTHS_OF: Record<string, Fraction> = { m: [1n, 1n], y: [12n, 1n], w: [84n, 365n], d: [12n, 365n] };

/** The amount of a month in millionths: the inverse of the number of months in a period. */
function monthly({ frequency, price, options, quantity }: Change): bigint {
  const each = options.reduce((sum, option) => add(sum, fractionOf(option)), fractionOf(price));
  const period = multiply(each, [BigInt(quantity), 1n]);
  const months: Fraction =
    frequency === '.5m'
      ? [1n, 2n]
      : multiply([BigInt(frequency.slice(0, -1)), 1n], MONTHS_OF[frequency.slice(-1)] ?? [1n, 1n]);
  const [a, b] = multiply(period, [months[1] * 1_000_000n, months[0]]);
  const floor = a / b;
  const rest = a - floor * b;
  if (rest * 2n === b) return floor % 2n === 0n ? floor : floor + 1n;
  return rest * 2n < b ? floor : floor + 1n;
}

const isActiveOn = ({ isActive, startDay, endDay }: Change, day: string): boolean =>
  isActive && (startDay === null || startDay <= day) && (endDay === null || day < endDay);

function textOf(millionths: bigint): string {
  const text = String(millionths).padStart(7, '0');
  return `${text.slice(0, -6)}.${text.slice(-6)}`.replace(/\.?0+$/, '');
}

type Count = Record<'mrr' | 'new' | 'expansion' | 'contraction' | 'churn' | 'reactivation', bigint> & {
  active: number;
};

/** The `currencies` of each day, as JSON text. */
export function replay(days: readonly string[], changes: ReadonlyMap<string, readonly Change[]>): string[] {
  const latest = new Map<string, Change>();
  const everIn = new Set<string>();
  let before = new Map<string, { currency: string; amount: bigint }>();
  return days.map((day) => {
    for (const change of changes.get(day) ?? []) latest.set(change.id, change);
    const now = new Map(
      [...latest.values()]
        .filter((one) => isActiveOn(one, day))
        .map((one) => [one.id, { currency: one.currency, amount: monthly(one) }]),
    );
    const counts = new Map<string, Count>();
    const countOf = (currency: string): Count => {
      const fresh = { mrr: 0n, new: 0n, expansion: 0n, contraction: 0n, churn: 0n, reactivation: 0n, active: 0 };
      const count = counts.get(currency) ?? fresh;
      counts.set(currency, count);
      return count;
    };
    for (const [id, { currency, amount }] of before) {
      if (now.get(id)?.currency !== currency) countOf(currency).churn += amount;
    }
    for (const [id, { currency, amount }] of now) {
      const count = countOf(currency);
      count.mrr += amount;
      count.active += 1;
      const was = before.get(id);
      if (was?.currency === currency) {
        if (amount > was.amount) count.expansion += amount - was.amount;
        else count.contraction += was.amount - amount;
      } else if (everIn.has(`${id} ${currency}`)) count.reactivation += amount;
      else count.new += amount;
      everIn.add(`${id} ${currency}`);
    }
    before = now;
    const sums = [...counts]
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([currency, count]) => {
        const { active, mrr, ...moves } = count;
        const rest = Object.entries(moves).map(([name, amount]) => `"${name}":${textOf(amount)}`);
        return `{"currency_code":"${currency}","mrr":${textOf(mrr)},"active_count":${active},${rest.join(',')}}`;
      });
    return `[${sums.join(',')}]`;
  });
}
