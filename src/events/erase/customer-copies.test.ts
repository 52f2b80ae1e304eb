import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutCustomer } from './customer-copies.ts';

test('a copy of the customer is removed by its id in any spelling, and other numbers stay as they are written', () => {
  const body = (copies: string) =>
    `{"id":1,"total":12.50,"items":[{"price":1e2}],"_embedded":{"customer":[${copies}]}}`;
  const other = '{"id":9007199254740994,"score":1.0}';
  assert.equal(withoutCustomer(body(`{"id":9007199254740993},${other}`), '9007199254740993'), body(other));
  assert.equal(withoutCustomer(body(`{"id":7.0},${other}`), '7'), body(other));
  assert.equal(withoutCustomer(body(other), '7'), undefined);
});
