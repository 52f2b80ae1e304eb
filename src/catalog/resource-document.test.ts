import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Value } from '#hypermedia/document.ts';
import { resourceDocument, currencyOf, propertiesOf, storedShape } from './resource-document.ts';

const kindOf = (name: string, value: Value): string | undefined =>
  propertiesOf({ [name]: value }, null, 'EUR')[0]?.kind;

const kinds: readonly (readonly [name: string, value: Value, kind: string])[] = [
  ['id', 7, 'number'],
  ['is_test', false, 'boolean'],
  ['note', 'ring twice', 'text'],
  ['note', null, 'text'],
  ['options', [1, 2], 'json'],
  ['address', { city: 'Ulm' }, 'json'],
  ['date_created', '2026-11-20T16:05:03+0000', 'date'],
  ['date_of_birth', '1990-02-03', 'date'],
  ['date_created', 'last week', 'text'],
  ['date_created', '2026-99-20', 'text'],
  ['next_transaction_date', '2026-11-20', 'date'],
  ['note', '2026-11-20', 'text'],
  ['receipt', 'https://shop.example.com/4711', 'url'],
  ['note', 'https://shop.example.com is open', 'text'],
  ['note', 'javascript:alert(1)', 'text'],
  ['total_order', 9.5, 'money'],
  ['total_order', '9.50', 'money'],
  ['total_order', 'on request', 'text'],
  ['quantity', 9.5, 'number'],
];
for (const [name, value, kind] of kinds) {
  test(`${name} of ${JSON.stringify(value)} is ${kind}`, () => {
    assert.equal(kindOf(name, value), kind);
  });
}

test('a currency is three letters; other text is not', () => {
  const codes: Value[] = ['eur', 'EUR', 'EURO', '€', 978, null];
  assert.deepEqual(
    codes.map((code) => currencyOf({ currency_code: code })),
    ['EUR', 'EUR', undefined, undefined, undefined, undefined],
  );
});

test('money has the currency of its resource, also inside embedded resources', () => {
  const body = JSON.stringify({
    currency_code: 'EUR',
    total_order: 12,
    _embedded: { items: [{ price: 12 }], payments: [{ currency_code: 'USD', amount: 13 }] },
  });
  const frozen = { storeId: 256, type: 'transaction', id: '7', baseUrl: 'https://api.example.com', body } as const;
  const { properties, embedded } = resourceDocument(frozen, storedShape('zoom=items,payments', 'transaction'));
  const all = [...properties, ...embedded.flatMap(({ documents }) => documents.flatMap((one) => [...one.properties]))];
  assert.deepEqual(
    all.filter(({ kind }) => kind === 'money').map(({ value, currency }) => [value, currency]),
    [
      [12, 'EUR'],
      [12, 'EUR'],
      [13, 'USD'],
    ],
  );
});
