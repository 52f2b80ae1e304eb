import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysAt } from './keys.ts';

const now = new Date('2026-11-21T12:00:00Z');
const at = (offsetMs: number) => new Date(now.getTime() + offsetMs);

test('without a rotation the current key is the key', () => {
  const keys = { encryptionKey: 'old', nextEncryptionKey: null, rotationEndsAt: null };
  assert.deepEqual(keysAt(keys, now), { current: 'old', next: null });
});

test('until a rotation ends the old key is in use, and the new one is available beside it', () => {
  const keys = { encryptionKey: 'old', nextEncryptionKey: 'new', rotationEndsAt: at(1) };
  assert.deepEqual(keysAt(keys, now), { current: 'old', next: 'new' });
});

test('from the end of the rotation the new key is the key', () => {
  const keys = { encryptionKey: 'old', nextEncryptionKey: 'new', rotationEndsAt: at(0) };
  assert.deepEqual(keysAt(keys, now), { current: 'new', next: null });
});
