/** Snapshots as curves: one a currency, since two cannot share an axis. */
import type { Charts, Curve } from '#hypermedia/chart.ts';
import { currencyOf } from '../kinds.ts';

/** What is drawn beside a snapshot: its day and those before it. */
export const DAYS_SHOWN = 90;
/** Of 2,000 currencies the curves took 1.7 s, in which the process answered nobody. */
const CURRENCIES_SHOWN = 10;

type Snapshot = {
  date: string;
  currencies: readonly { currency_code: string; mrr: number; active_count: number }[];
};

/** `XXX` is none (ISO 4217). */
const titleOf = (currency: string): string =>
  currency === 'XXX' ? 'Monthly recurring revenue without a currency' : `Monthly recurring revenue in ${currency}`;

const notDrawn = (count: number): string =>
  count === 1
    ? 'Not drawn: the currency with the fewest subscriptions.'
    : `Not drawn: the ${count} currencies with the fewest subscriptions.`;

/**
 * `bodies` are snapshots' JSON texts, in any order of their days. Drawn are the currencies with the most subscriptions over
 * all of these days: their amounts cannot be compared.
 */
export const revenueCharts = (bodies: readonly string[]): Charts & { curves: readonly Curve[] } => {
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
  return { curves, ...(all.length > curves.length && { note: notDrawn(all.length - curves.length) }) };
};
