import assert from 'node:assert/strict';
import { test } from 'node:test';
import { revenueCharts } from './curve.ts';

const snapshot = (date: string, amounts: Record<string, number>): string =>
  JSON.stringify({ date, currencies: Object.entries(amounts).map(([currency_code, mrr]) => ({ currency_code, mrr })) });

test('each currency has a curve of its own, in the order of the days', () => {
  const bodies = [
    snapshot('2027-03-02', { USD: 5, EUR: 2 }),
    snapshot('2027-03-01', { EUR: 1 }),
    snapshot('2027-03-03', {}),
  ];
  assert.deepEqual(revenueCharts(bodies), [
    {
      title: 'Monthly recurring revenue in EUR',
      currency: 'EUR',
      points: [
        { day: '2027-03-01', value: 1 },
        { day: '2027-03-02', value: 2 },
      ],
    },
    { title: 'Monthly recurring revenue in USD', currency: 'USD', points: [{ day: '2027-03-02', value: 5 }] },
  ]);
});
