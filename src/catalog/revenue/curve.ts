/** Makes charts of revenue snapshots, one per currency, because currencies cannot share an axis. */
import type { Charts, Curve } from '#hypermedia/chart.ts';
import { currencyOf } from '../kinds.ts';

/** Days in the chart of a snapshot, including its own. */
export const DAYS_SHOWN = 90;
/** Limits the curves: 2,000 currencies took 1.7 s, during which the process was blocked. */
const CURRENCIES_SHOWN = 10;

type Snapshot = {
  date: string;
  currencies: readonly { currency_code: string; mrr: number; active_count: number }[];
};

/** `XXX`: no currency (ISO 4217). */
const titleOf = (currency: string): string =>
  currency === 'XXX' ? 'Monthly recurring revenue without a currency' : `Monthly recurring revenue in ${currency}`;

const omittedNote = (count: number): string =>
  count === 1
    ? 'Not shown: the currency with the fewest subscriptions.'
    : `Not shown: the ${count} currencies with the fewest subscriptions.`;

/**
 * Returns the charts of snapshots, given as JSON texts in any order. If there are too many currencies, those with the most
 * subscriptions over all days are drawn, because amounts of different currencies cannot be compared.
 */
export function revenueCharts(bodies: readonly string[]): Charts & { curves: readonly Curve[] } {
  const snapshots = bodies.map((body) => JSON.parse(body) as Snapshot).toSorted((a, b) => (a.date < b.date ? -1 : 1));
  const points = snapshots.flatMap(({ date, currencies }) =>
    currencies.map((one) => ({ currency: currencyOf(one) ?? '', day: date, value: one.mrr, count: one.active_count })),
  );
  const all = [...Map.groupBy(points, ({ currency }) => currency)]
    .map(([currency, of]) => ({ currency, of, count: of.reduce((sum, { count }) => sum + count, 0) }))
    .toSorted((a, b) => b.count - a.count || (a.currency < b.currency ? -1 : 1));
  const curves = all
    .slice(0, CURRENCIES_SHOWN)
    .toSorted((a, b) => (a.currency < b.currency ? -1 : 1))
    .map(({ currency, of }) => ({
      title: titleOf(currency),
      currency,
      points: of.map(({ day, value }) => ({ day, value })),
    }));
  return { curves, ...(all.length > curves.length && { note: omittedNote(all.length - curves.length) }) };
}
