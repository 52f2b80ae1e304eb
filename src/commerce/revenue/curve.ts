/** Snapshots as curves: one a currency, since two cannot share an axis. */
import type { Chart } from '#hypermedia/chart.ts';
import { currencyOf } from '../kinds.ts';

/** What is drawn beside a snapshot: its day and those before it. */
export const DAYS_SHOWN = 90;

type Snapshot = { date: string; currencies: readonly { currency_code: string; mrr: number }[] };

/** `bodies` are snapshots' JSON texts, in any order of their days. */
export const revenueCharts = (bodies: readonly string[]): Chart[] => {
  const snapshots = bodies.map((body) => JSON.parse(body) as Snapshot).toSorted((a, b) => (a.date < b.date ? -1 : 1));
  const points = snapshots.flatMap(({ date, currencies }) =>
    currencies.map((one) => ({ currency: currencyOf(one) ?? '', day: date, value: one.mrr })),
  );
  return [...Map.groupBy(points, ({ currency }) => currency)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, of]) => ({
      title: `Monthly recurring revenue in ${currency}`,
      currency,
      points: of.map(({ day, value }) => ({ day, value })),
    }));
};
