import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExact } from '#core/exact-number.ts';
import type { JsonObject } from './resource-document.ts';
import { differencesBetween, changesBetween } from './subscription-steps.ts';

const changeOf = (before: JsonObject, after: JsonObject) =>
  changesBetween(before, after, { differing: differencesBetween(before, after, 'UTC'), timeZone: 'UTC' });
const withTemplate = (template: JsonObject): JsonObject => ({
  id: 1,
  _embedded: { 'svc:transaction_template': template },
});
const item = (price: number, more: JsonObject = {}): JsonObject => ({ name: 'Coffee', price, quantity: 2, ...more });
const withItems = (...items: JsonObject[]): JsonObject => withTemplate({ _embedded: { items } });

const cases: readonly (readonly [
  what: string,
  was: JsonObject,
  is: JsonObject,
  before: JsonObject,
  after: JsonObject,
])[] = [
  ['properties, one of them new', { a: 1, b: 2 }, { a: 1, b: 3, c: 'x' }, { b: 2, c: null }, { b: 3, c: 'x' }],
  ['no nested or long values', { a: { b: 1 }, c: 'x' }, { a: { b: 2 }, c: 'y'.repeat(201) }, {}, {}],
  [
    'the totals of a template',
    withTemplate({ total_item_price: 19, total_order: 21, note: null, date_modified: '1' }),
    withTemplate({ total_item_price: 24, total_order: 21, date_modified: '2' }),
    { transaction_template: { total_item_price: 19 } },
    { transaction_template: { total_item_price: 24 } },
  ],
  [
    'the price of an item',
    withItems(item(19, { weight: 1 }), item(5)),
    withItems(item(24, { weight: 2 }), item(5)),
    { transaction_template: { items: [item(19), item(5)] } },
    { transaction_template: { items: [item(24), item(5)] } },
  ],
  [
    'no properties outside the short form',
    withItems(item(1, { weight: 1 })),
    withItems(item(1, { weight: 2 })),
    {},
    {},
  ],
  [
    'an attribute',
    { _embedded: { attributes: [{ name: 'gift', value: 'no' }] } },
    { _embedded: { attributes: [{ name: 'gift', value: 'yes' }] } },
    { attributes: [{ name: 'gift', value: 'no' }] },
    { attributes: [{ name: 'gift', value: 'yes' }] },
  ],
];

for (const [what, was, is, before, after] of cases) {
  test(`a change describes ${what}`, () => assert.deepEqual(changeOf(was, is), { before, after }));
}

test('a description is bounded, however many properties differ', () => {
  const many = (value: number) => Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`p${n}`, value]));
  const items = (price: number) => Array.from({ length: 100 }, () => item(price));
  assert.equal(Object.keys(changeOf(many(1), many(2)).after).length, 20);
  const { transaction_template: template } = changeOf(withItems(...items(1)), withItems(...items(2))).after;
  assert.equal((template as { items: unknown[] }).items.length, 20);
  const wordy = Array.from({ length: 20 }, () => item(2, { name: 'x'.repeat(200), code: 'y'.repeat(200) }));
  assert.ok(JSON.stringify(changeOf(withItems(...items(1)), withItems(...wordy)).after).length < 2_200);
});

test('a number in another spelling does not differ, and one whose last digit a double loses does', () => {
  const versionOf = (price: string, balance: string) =>
    parseExact(`{"id":1,"price":${price},"balance":${balance}}`) as JsonObject;
  const was = versionOf('12.50', '9007199254740992');
  assert.deepEqual(differencesBetween(was, versionOf('12.5', '9007199254740992'), 'UTC'), []);
  assert.deepEqual(differencesBetween(was, versionOf('1.25e1', '9007199254740993'), 'UTC'), ['balance']);
});
