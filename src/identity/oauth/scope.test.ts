import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readScope, scopeText } from './scope.ts';

test('only the two scopes are accepted, the first one together with a store', () => {
  const store = { scope: 'store_full_access', storeId: undefined };
  assert.deepEqual(readScope('store_full_access'), store);
  assert.deepEqual(readScope(' store_full_access  store_full_access '), store);
  assert.deepEqual(readScope('store_id_7 store_full_access'), { ...store, storeId: 7 });
  assert.deepEqual(readScope('user_full_access'), { scope: 'user_full_access', storeId: undefined });
});

test('all other texts are no scope', () => {
  const others = [
    'platform',
    'STORE_FULL_ACCESS',
    'store_full_access user_full_access',
    'store_full_access platform',
    'user_full_access store_id_7',
    'store_id_7',
    'store_full_access store_id_7 store_id_8',
    'store_full_access store_id_',
    'store_full_access store_id_07',
    'store_full_access store_id_9007199254740993',
    'store_full_access,user_full_access',
    'store_full_access\tuser_full_access',
  ];
  for (const text of others) assert.equal(readScope(text), undefined, text);
});

test('a grant for a store names it', () => {
  assert.equal(scopeText('store_full_access', 7), 'store_full_access store_id_7');
  assert.equal(scopeText('user_full_access', null), 'user_full_access');
});
