/** Snapshots of recurring revenue with their charts, for browser and validator tests. */
import type { Curve } from '#hypermedia/view.ts';
import { date, json, number, type Document } from '#hypermedia/document.ts';
import { collectionOf, store } from './documents.ts';

const FIRST = Date.UTC(2026, 7, 22);
const dayOf = (n: number): string => new Date(FIRST + n * 86_400_000).toISOString().slice(0, 10);

/** Daily values that alternate around a rising trend. */
export function curve(currency: string, days: number, scale: number): Curve {
  return {
    title: `Monthly recurring revenue in ${currency}`,
    currency,
    points: Array.from({ length: days }, (_, n) => ({
      day: dayOf(n),
      value: Math.round(100 * scale * (40 + n / 2 + 6 * Math.sin(n / 4) + (n % 7))) / 100,
    })),
  };
}

const revenue = (currency_code: string, mrr: number) => ({
  currency_code,
  mrr,
  active_count: 212,
  new: 60,
  expansion: 19.99,
  contraction: 0,
  churn: 45,
  reactivation: 0,
});

export function snapshot(n: number): Document {
  return {
    name: 'subscription_mrr_snapshot',
    title: `Subscription MRR snapshot ${n}`,
    links: [
      { rel: 'self', href: `${store}/subscription_mrr_snapshots/${n}`, title: 'This subscription MRR snapshot' },
      { rel: 'store', href: store, title: 'The store it belongs to' },
    ],
    embedded: [],
    properties: [
      number('id', n),
      date('date', dayOf(n)),
      json('currencies', [revenue('EUR', 4180.5), revenue('JPY', 1_234_567)]),
      date('date_created', '2026-11-20T00:10:00+0100'),
    ],
  };
}

export const snapshots = collectionOf(
  'subscription_mrr_snapshots',
  'The subscription MRR snapshots of this store',
  Array.from({ length: 20 }, (_, n) => snapshot(n)),
);
