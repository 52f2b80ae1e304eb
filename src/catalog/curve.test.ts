import assert from 'node:assert/strict';
import { test } from 'node:test';
import { revenueCharts } from './resource-operations.ts';

type Amounts = Record<string, { mrr: number; active_count: number }>;

function snapshot(date: string, amounts: Amounts): string {
  const currencies = Object.entries(amounts).map(([code, of]) => Object.assign(of, { currency_code: code }));
  return JSON.stringify({ date, currencies });
}

test('revenue without a currency is labelled as such', () => {
  const { curves } = revenueCharts([snapshot('2027-03-01', { XXX: { mrr: 1, active_count: 1 } })]);
  assert.match(curves[0]?.title ?? '', /^(?!.*XXX).*currency/);
});

test('each currency has its own curve, ordered by day', () => {
  const bodies = [
    snapshot('2027-03-02', { USD: { mrr: 5, active_count: 3 }, EUR: { mrr: 2, active_count: 1 } }),
    snapshot('2027-03-01', { EUR: { mrr: 1, active_count: 1 } }),
    snapshot('2027-03-03', {}),
  ];
  assert.deepEqual(revenueCharts(bodies), {
    curves: [
      {
        title: 'Monthly recurring revenue in EUR',
        currency: 'EUR',
        points: [
          { day: '2027-03-01', value: 1 },
          { day: '2027-03-02', value: 2 },
        ],
      },
      { title: 'Monthly recurring revenue in USD', currency: 'USD', points: [{ day: '2027-03-02', value: 5 }] },
    ],
  });
});

const codeOf = (n: number): string => `A${String.fromCodePoint(65 + Math.floor(n / 26), 65 + (n % 26))}`;
const counted = (currencies: number, countOf: (n: number) => number): Amounts =>
  Object.fromEntries(
    Array.from({ length: currencies }, (_, n) => [codeOf(n), { mrr: 100 - n, active_count: countOf(n) }]),
  );

test('of many currencies, those with the most subscriptions are drawn and a sentence counts the others', () => {
  const rising = counted(40, (n) => n);
  const third = counted(40, (n) => (n === 3 ? 50 : 0));
  const { curves, note } = revenueCharts([snapshot('2027-03-01', rising), snapshot('2027-03-02', third)]);
  assert.deepEqual(
    curves.map(({ currency }) => currency),
    [3, 31, 32, 33, 34, 35, 36, 37, 38, 39].map(codeOf),
  );
  assert.match(note ?? '', /\b30 currencies/);
});

test('ten currencies are all drawn; of eleven, one is left out', () => {
  const noteOf = (count: number) =>
    revenueCharts([
      snapshot(
        '2027-03-01',
        counted(count, () => 1),
      ),
    ]).note;
  assert.equal(noteOf(10), undefined);
  assert.match(noteOf(11) ?? '', /the currency/);
});
