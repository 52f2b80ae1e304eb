import assert from 'node:assert/strict';
import { test } from 'node:test';
import { narrowedTo, readScope, scopeText } from './scope.ts';

test('the two scopes with full access are accepted, the first one together with a store', () => {
  const store = { scope: 'store_full_access', permissions: null, storeId: undefined };
  assert.deepEqual(readScope('store_full_access'), store);
  assert.deepEqual(readScope(' store_full_access  store_full_access '), store);
  assert.deepEqual(readScope('store_id_7 store_full_access'), { ...store, storeId: 7 });
  assert.deepEqual(readScope('user_full_access'), {
    scope: 'user_full_access',
    permissions: null,
    storeId: undefined,
  });
});

test('limited scopes are accepted together, in the order of the list, for at most one store', () => {
  const read = readScope('customer:read store_id_7 store_read customer:read');
  assert.deepEqual(read, { scope: 'store_limited', permissions: ['store_read', 'customer:read'], storeId: 7 });
  assert.deepEqual(readScope('webhooks'), { scope: 'store_limited', permissions: ['webhooks'], storeId: undefined });
});

test('all other texts are no scope', () => {
  const others = [
    'platform',
    'STORE_FULL_ACCESS',
    'store_full_access user_full_access',
    'store_full_access store_read',
    'store_read user_full_access',
    'store_limited',
    'store_read orders:read',
    'customers:read',
    'store_read store_id_7 store_id_8',
    'store_full_access platform',
    'user_full_access store_id_7',
    'store_id_7',
    'store_full_access store_id_7 store_id_8',
    'store_full_access store_id_',
    'store_full_access store_id_07',
    'store_full_access store_id_9007199254740993',
    'store_full_access,user_full_access',
    'store_full_access\tuser_full_access',
    'store_read '.repeat(3_000),
  ];
  for (const text of others) assert.equal(readScope(text), undefined, text);
  assert.notEqual(readScope('store_read '.repeat(2_900)), undefined, 'as long as the headers of a request');
});

test('a grant for a store names it', () => {
  const full = (scope: 'store_full_access' | 'user_full_access') => ({ scope, permissions: null });
  assert.equal(scopeText(full('store_full_access'), 7), 'store_full_access store_id_7');
  assert.equal(scopeText(full('user_full_access'), null), 'user_full_access');
  const limited = { scope: 'store_limited', permissions: ['webhooks', 'customer:read'] } as const;
  assert.equal(scopeText(limited, 7), 'webhooks customer:read store_id_7');
});

test('a refresh narrows only to limited scopes', () => {
  assert.deepEqual(narrowedTo(['events_read', 'store_id_7', 'webhooks']), ['webhooks', 'events_read']);
  assert.equal(narrowedTo([]), null);
  assert.equal(narrowedTo(['store_id_7']), null);
  assert.equal(narrowedTo(['store_full_access', 'store_read']), null);
});
