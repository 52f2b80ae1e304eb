import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer } from './seal.ts';

const key = randomBytes(32);
const { seal, open } = createSealer(key);

test('what is sealed opens again, for the same row', () => {
  for (const text of ['', 'secret', 'naïve ☃ 😀', 'x'.repeat(10_000)])
    assert.equal(open(seal(text, 'webhook:7'), 'webhook:7'), text);
});

test('the envelope is version, key id, nonce, ciphertext and tag', () => {
  const sealed = seal('secret', 'webhook:7');
  assert.equal(sealed.length, 1 + 4 + 12 + 6 + 16);
  assert.equal(sealed[0], 1);
  assert.deepEqual(sealed.subarray(1, 5), createHash('sha256').update(key).digest().subarray(0, 4));
  assert.equal(sealed.includes('secret'), false);
});

test('no two envelopes of one text are the same', () => {
  assert.notDeepEqual(seal('secret', 'webhook:7'), seal('secret', 'webhook:7'));
});

test('another key does not open it, and the error says which to look for', () => {
  const other = createSealer(randomBytes(32));
  assert.throws(() => other.open(seal('secret', 'webhook:7'), 'webhook:7'), /webhook:7 .* HALCYON_SECRET_KEY/);
});

test('another row does not open it', () => {
  assert.throws(() => open(seal('secret', 'webhook:7'), 'webhook:8'), /authenticate/);
});

test('any flipped bit, and any cut, is noticed', () => {
  const sealed = seal('secret', 'webhook:7');
  for (let bit = 0; bit < sealed.length * 8; bit += 1) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    assert.throws(() => open(changed, 'webhook:7'), `bit ${bit}`);
  }
  for (let length = 0; length < sealed.length; length += 1) {
    assert.throws(() => open(sealed.subarray(0, length), 'webhook:7'), `cut to ${length} bytes`);
  }
});

test('with two keys the first seals and either opens, for the same row', () => {
  const other = randomBytes(32);
  const [one, both] = [createSealer(other), createSealer(other, key)];
  const [ours, theirs] = [both.seal('secret', 'webhook:7'), seal('secret', 'webhook:7')];
  assert.equal(one.open(ours, 'webhook:7'), 'secret');
  assert.deepEqual(
    [ours, theirs].map((sealed) => both.open(sealed, 'webhook:7')),
    ['secret', 'secret'],
  );
  assert.deepEqual([ours, theirs].map(both.isCurrent), [true, false]);
  assert.throws(() => open(ours, 'webhook:7'), /HALCYON_SECRET_KEY/);
  assert.throws(() => both.open(theirs, 'webhook:8'), /authenticate/);
  const third = createSealer(randomBytes(32)).seal('secret', 'webhook:7');
  assert.throws(() => both.open(third, 'webhook:7'), /webhook:7 .* HALCYON_SECRET_KEY_OTHER/);
});
