import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { compactDecrypt } from 'jose';
import { encryptBody, isReadable } from './encrypt.ts';

const keyOf = (text: string): Buffer => createHash('sha256').update(text).digest();
const KEY = 'schlüssel';
const body = Buffer.from('{"id":1,"name":"Zoë"}');

test('jose decrypts the encrypted body, and its header names the key and the content type', async () => {
  const jwe = encryptBody(body, 'application/hal+json', KEY);
  const { plaintext, protectedHeader } = await compactDecrypt(jwe, keyOf(KEY));
  assert.deepEqual(Buffer.from(plaintext), body);
  const { kid, ...head } = protectedHeader;
  assert.deepEqual(head, { alg: 'dir', enc: 'A256GCM', cty: 'hal+json' });
  assert.match(String(kid), /^[0-9a-f]{16}$/);
  await assert.rejects(compactDecrypt(jwe, keyOf('another')), { code: 'ERR_JWE_DECRYPTION_FAILED' });
});

test('the same body never encrypts to the same bytes, and another key has another kid', () => {
  const headOf = (jwe: Uint8Array): string => Buffer.from(jwe).toString().split('.')[0] ?? '';
  const [one, two] = [encryptBody(body, 'application/hal+json', KEY), encryptBody(body, 'application/hal+json', KEY)];
  assert.notDeepEqual(one, two);
  assert.equal(headOf(one), headOf(two));
  assert.notEqual(headOf(one), headOf(encryptBody(body, 'application/hal+json', 'another')));
});

for (const url of [
  'http://127.0.0.1/',
  'http://127.1:9/',
  'http://[::1]/',
  'http://LOCALHOST:80/',
  'https://a.test/',
]) {
  test(`a request to ${url} cannot be read in transit`, () => assert.equal(isReadable(new URL(url)), false));
}
for (const host of ['a.test', '10.0.0.1', '127.0.0.1.a.test', 'localhost.a.test', '[::ffff:127.0.0.1]', '0.0.0.0']) {
  test(`a request to http://${host} can be read in transit`, () =>
    assert.equal(isReadable(new URL(`http://${host}/`)), true));
}
