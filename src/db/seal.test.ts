import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer } from './seal.ts';

const key = randomBytes(32);
const { seal, open } = createSealer(key);

test('an encrypted value decrypts for the same row', () => {
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

test('no two envelopes of one text are equal', () => {
  assert.notDeepEqual(seal('secret', 'webhook:7'), seal('secret', 'webhook:7'));
});

test('another key does not decrypt it, and the error names the key to look for', () => {
  const other = createSealer(randomBytes(32));
  assert.throws(() => other.open(seal('secret', 'webhook:7'), 'webhook:7'), /webhook:7 .* HALCYON_SECRET_KEY/);
});

test('another row does not decrypt it', () => {
  assert.throws(() => open(seal('secret', 'webhook:7'), 'webhook:8'), /authenticate/);
});

test('a flipped bit and a truncation are detected', () => {
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

test('with two keys the first encrypts and either decrypts, for the same row', () => {
  const other = randomBytes(32);
  const [one, both] = [createSealer(other), createSealer(other, key)];
  const [underFirst, underSecond] = [both.seal('secret', 'webhook:7'), seal('secret', 'webhook:7')];
  assert.equal(one.open(underFirst, 'webhook:7'), 'secret');
  assert.deepEqual(
    [underFirst, underSecond].map((sealed) => both.open(sealed, 'webhook:7')),
    ['secret', 'secret'],
  );
  assert.deepEqual([underFirst, underSecond].map(both.isCurrent), [true, false]);
  assert.throws(() => open(underFirst, 'webhook:7'), /HALCYON_SECRET_KEY/);
  assert.throws(() => both.open(underSecond, 'webhook:8'), /authenticate/);
  const third = createSealer(randomBytes(32)).seal('secret', 'webhook:7');
  assert.throws(() => both.open(third, 'webhook:7'), /webhook:7 .* HALCYON_SECRET_KEY_OTHER/);
});
