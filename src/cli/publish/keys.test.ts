import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKeys } from './keys.ts';

const keysOf = (events: readonly unknown[]): string[] => events.map(createKeys());

test('the same event again in one input has another key, and the same keys in the next run', () => {
  const keys = keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]);
  assert.equal(new Set(keys).size, 4);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]), keys);
});

test('a line that is put in or taken out changes the keys of no other', () => {
  const [first, , third] = keysOf([{ id: 1 }, { id: 2 }, { id: 3 }]);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 3 }]), [first, third]);
});
