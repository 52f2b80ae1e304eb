/** The snapshot of a day: its sums put together chunk by chunk, and the representation that is made of them. Pure. */
import { textOfMillionths } from '#catalog/revenue/decimal.ts';
import type { Sums } from './snapshots-sql.ts';

const AMOUNTS = ['mrr', 'new', 'expansion', 'contraction', 'churn', 'reactivation'] as const;
type Amount = (typeof AMOUNTS)[number];

/** Amounts are millionths. */
type Currency = { activeCount: number } & Record<Amount, bigint>;
export type Totals = ReadonlyMap<string, Currency>;

const nothing = (): Currency => ({
  activeCount: 0,
  mrr: 0n,
  new: 0n,
  expansion: 0n,
  contraction: 0n,
  churn: 0n,
  reactivation: 0n,
});

export const added = (totals: Totals, chunk: readonly Sums[]): Totals => {
  const sums = new Map(totals);
  for (const one of chunk) {
    const sum = { ...(sums.get(one.currency) ?? nothing()) };
    sum.activeCount += one.activeCount;
    for (const name of AMOUNTS) sum[name] += BigInt(one[name]);
    sums.set(one.currency, sum);
  }
  return sums;
};

type Made = { id: number; day: string; dateCreated: string };

/**
 * Its JSON text, written by hand: a sum may have more digits than a number in JavaScript holds, and what is kept for ever
 * shall have all of them.
 */
export const snapshotText = ({ id, day, dateCreated }: Made, totals: Totals): string => {
  const currencies = [...totals]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, sum]) => {
      const amount = (name: Amount) => `"${name}":${textOfMillionths(sum[name])}`;
      const [mrr, ...moves] = AMOUNTS.map(amount);
      return `{"currency_code":"${code}",${mrr},"active_count":${sum.activeCount},${moves.join(',')}}`;
    });
  return `{"id":${id},"date":"${day}","currencies":[${currencies.join(',')}],"date_created":"${dateCreated}"}`;
};
