import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Value } from '#hypermedia/document.ts';
import { termOf } from './mrr.ts';

type Json = { readonly [name: string]: Value };

const monthly = (frequency: Value, template: Json): string =>
  termOf({ frequency, _embedded: { transaction_template: template } }, 'UTC').monthly;

test('an amount is counted per month, rounded half to even at the sixth decimal', () => {
  const cases: [string, Value, string][] = [
    ['1m', 19, '19'],
    ['1m', '19.99', '19.99'],
    ['3m', 10, '3.333333'],
    ['6m', 10, '1.666667'],
    ['1y', 100, '8.333333'],
    ['2y', 1200, '50'],
    ['.5m', 9.95, '19.9'],
    ['1d', 1, '30.416667'],
    ['30d', 30, '30.416667'],
    ['365d', 120, '10'],
    ['1w', 12, '52.142857'],
    ['2w', 12, '26.071429'],
    ['1m', '0.1234565', '0.123456'],
    ['1m', '0.1234575', '0.123458'],
    ['1m', '0.12345651', '0.123457'],
    ['8m', '0.000004', '0'],
    ['8m', '0.000012', '0.000002'],
    ['1m', 0.1, '0.1'],
    ['1m', '1e3', '1000'],
    ['1m', 5e-7, '0'],
    ['1m', '999999999999999.999999', '999999999999999.999999'],
    ['1m', '1e15', '0'],
    ['1m', 1e300, '0'],
  ];
  assert.deepEqual(
    cases.map(([frequency, amount]) => [frequency, amount, monthly(frequency, { total_order: amount })]),
    cases,
  );
});

test('an invalid frequency, an invalid amount and a negative amount add no revenue', () => {
  for (const frequency of ['', '0m', 'm', '1', '1x', '-1m', '1.5m', '0.5m', '1M', ' 1m', '10000d', 1, null, true, {}])
    assert.equal(monthly(frequency, { total_order: 10 }), '0', JSON.stringify(frequency));
  for (const amount of [
    '',
    ' ',
    '.',
    'ten',
    '1,5',
    '0x10',
    '1e',
    '1e9999',
    'Infinity',
    true,
    {},
    [5],
    -1,
    '-0.01',
    '9'.repeat(65),
  ])
    assert.equal(monthly('1m', { total_order: amount }), '0', JSON.stringify(amount));
  assert.equal(termOf({ frequency: '1m' }, 'UTC').monthly, '0');
});

test('recurring revenue is the items with their options, in preference to any total', () => {
  const items = [
    { price: '9.95', quantity: 2, _embedded: { 'svc:item_options': [{ price_mod: -0.05 }, { price_mod: '1.1' }] } },
    { price: 0.1 },
    { price: null, quantity: 3 },
  ];
  const totals = { total_item_price: 7, total_order: 8 };
  assert.equal(monthly('1m', { ...totals, _embedded: { 'svc:items': items } }), '22.1');
  assert.equal(monthly('1m', { ...totals, _embedded: { items } }), '22.1');
  assert.equal(monthly('1m', { ...totals, _embedded: { items: [] } }), '7');
  assert.equal(monthly('1m', totals), '7');
  assert.equal(monthly('1m', { total_item_price: null, total_order: 8 }), '8');
  assert.equal(monthly('1m', { ...totals, _embedded: { items: [{ price: 1 }, { price: 'free' }] } }), '0');
});

test('the currency is that of the subscription, then that of its template, else none', () => {
  const template = { _embedded: { 'x:transaction_template': { currency_code: 'usd' } } };
  assert.equal(termOf({ currency_code: 'EUR', ...template }, 'UTC').currency, 'EUR');
  assert.equal(termOf({ currency_code: 'Euro', ...template }, 'UTC').currency, 'USD');
  assert.equal(termOf({}, 'UTC').currency, 'XXX');
});

test('days are in the time zone of the store, and an invalid date is no day', () => {
  const dayIn = (zone: string, start_date: Value) => termOf({ start_date }, zone).startDay;
  const cases: [string, Value, string | null][] = [
    ['Europe/Berlin', '2026-08-01', '2026-08-01'],
    ['Asia/Tokyo', '2026-08-01', '2026-08-01'],
    ['Asia/Tokyo', '2026-08-01T23:30:00', '2026-08-01'],
    ['Asia/Tokyo', '2026-08-01 23:30', '2026-08-01'],
    ['Asia/Tokyo', '2026-08-01T23:30:00+0200', '2026-08-02'],
    ['America/Lima', '2026-08-01T00:00:00Z', '2026-07-31'],
    ['Europe/Berlin', '2026-03-29T23:30:00+01:00', '2026-03-30'],
    ['UTC', '2024-02-29', '2024-02-29'],
    ['UTC', '2026-02-29', null],
    ['UTC', '0000-00-00', null],
    ['UTC', '0000-00-00 00:00:00', null],
    ['Asia/Tokyo', '9999-12-31T23:00:00Z', null],
    ['America/Lima', '0001-01-01T00:00:00Z', null],
    ['UTC', '', null],
    ['UTC', 'tomorrow', null],
    ['UTC', 1_790_000_000, null],
    ['UTC', null, null],
  ];
  assert.deepEqual(
    cases.map(([zone, text]) => [zone, text, dayIn(zone, text)]),
    cases,
  );
});

test('a subscription is active in every spelling of the flag', () => {
  const isActive = (is_active: Value) => termOf({ is_active }, 'UTC').isActive;
  assert.deepEqual([true, 1, '1', 'true'].map(isActive), [true, true, true, true]);
  assert.deepEqual([false, 0, '0', 'false', 'yes', 2, null, [], {}].filter(isActive), []);
});

/** Members that a subscription may have, with arbitrary values. */
const anything = fc.jsonValue({ maxDepth: 4 });
const names = ['price', 'quantity', 'price_mod', 'total_order', 'total_item_price', 'currency_code', 'items'];
const strange = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 6 },
    anything,
    fc.stringMatching(/^[-+]?\d{0,70}\.?\d{0,9}(?:e[-+]?\d{1,4})?$/),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(
      fc.constantFrom(...names, '_embedded', 'svc:items', 'item_options', 'svc:transaction_template'),
      tie('any'),
    ),
  ),
})).any;

test('every subscription, however malformed, has a term that can be stored', () => {
  const frequency = fc.oneof(fc.constantFrom('1m', '.5m', '2w', '7d', '1y'), anything);
  const zone = fc.constantFrom('UTC', 'Asia/Tokyo', 'America/Lima');
  const date = fc.oneof(
    anything,
    fc.date({ noInvalidDate: true }).map((at) => at.toISOString()),
  );
  const subscription = fc.record(
    { frequency, is_active: anything, start_date: date, end_date: date, currency_code: anything, _embedded: strange },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(subscription, zone, (one, timeZone) => {
      const term = termOf(one as Json, timeZone);
      assert.match(term.monthly, /^(?:0|[1-9]\d{0,14})(?:\.\d{0,5}[1-9])?$/);
      assert.match(term.currency, /^[A-Z]{3}$/);
      for (const day of [term.startDay, term.endDay])
        assert.ok(day === null || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day));
    }),
    { numRuns: 500 },
  );
});
