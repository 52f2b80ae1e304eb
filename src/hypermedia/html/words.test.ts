import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownMoney } from './words.ts';

const amounts: readonly (readonly [value: string | number, currency: string | undefined, shown: string | undefined])[] =
  [
    ['1234.5', 'EUR', '€1,234.50'],
    [19, 'USD', '$19.00'],
    ['-5', 'GBP', '-£5.00'],
    ['1200', 'JPY', '¥1,200'],
    ['4.999', 'EUR', '€4.999'],
    ['123456789012345678901.07', 'EUR', '€123,456,789,012,345,678,901.07'],
    ['10', 'XQZ', 'XQZ\u00A010.00'],
    ['10', undefined, '10'],
    ['10', 'XXX', '10'],
    ['10', 'no currency', '10'],
    ['a lot', 'EUR', undefined],
    ['', 'EUR', undefined],
  ];

for (const [value, currency, shown] of amounts) {
  test(`${JSON.stringify(value)} of ${currency} is shown as ${shown}`, () =>
    assert.equal(shownMoney(value, currency), shown));
}

test('the cache of currency formats is bounded', () => {
  for (let n = 0; n < 500; n += 1) shownMoney('1', `X${String.fromCharCode(65 + (n % 26), 65 + Math.floor(n / 26))}`);
  assert.equal(shownMoney('1', 'EUR'), '€1.00');
});
