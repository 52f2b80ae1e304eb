/** Adds up the sums of a day chunk by chunk and writes the JSON text of its snapshot. Pure functions. */
import { textOfMillionths } from '#catalog/revenue/decimal.ts';
import type { Sums } from './snapshots-sql.ts';

const AMOUNTS = ['mrr', 'new', 'expansion', 'contraction', 'churn', 'reactivation'] as const;
type Amount = (typeof AMOUNTS)[number];

/** Amounts are millionths. */
type Currency = { activeCount: number } & Record<Amount, bigint>;
export type Totals = ReadonlyMap<string, Currency>;

const emptySums = (): Currency => ({
  activeCount: 0,
  mrr: 0n,
  new: 0n,
  expansion: 0n,
  contraction: 0n,
  churn: 0n,
  reactivation: 0n,
});

export function addSums(totals: Totals, chunk: readonly Sums[]): Totals {
  const sums = new Map(totals);
  for (const one of chunk) {
    const sum = { ...(sums.get(one.currency) ?? emptySums()) };
    sum.activeCount += one.activeCount;
    for (const name of AMOUNTS) sum[name] += BigInt(one[name]);
    sums.set(one.currency, sum);
  }
  return sums;
}

type SnapshotHead = { id: number; day: string; dateCreated: string };

/**
 * Returns the JSON text of a snapshot. It is not made by `JSON.stringify`, because a sum may have more digits than a JavaScript
 * number holds.
 */
export function snapshotText({ id, day, dateCreated }: SnapshotHead, totals: Totals): string {
  const currencies = [...totals]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, sum]) => {
      const amount = (name: Amount) => `"${name}":${textOfMillionths(sum[name])}`;
      const [mrr, ...moves] = AMOUNTS.map(amount);
      return `{"currency_code":"${code}",${mrr},"active_count":${sum.activeCount},${moves.join(',')}}`;
    });
  return `{"id":${id},"date":"${day}","currencies":[${currencies.join(',')}],"date_created":"${dateCreated}"}`;
}
