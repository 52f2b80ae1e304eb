import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { compactDecrypt } from 'jose';
import { encryptBody, isReadable } from './encrypt.ts';

const keyOf = (text: string): Buffer => createHash('sha256').update(text).digest();
const KEY = 'schlüssel';
const body = Buffer.from('{"id":1,"name":"Zoë"}');

test('what was encrypted is decrypted by jose, and its head says with which key and what is inside', async () => {
  const jwe = encryptBody(body, 'application/hal+json', KEY);
  const { plaintext, protectedHeader } = await compactDecrypt(jwe, keyOf(KEY));
  assert.deepEqual(Buffer.from(plaintext), body);
  const { kid, ...head } = protectedHeader;
  assert.deepEqual(head, { alg: 'dir', enc: 'A256GCM', cty: 'hal+json' });
  assert.match(String(kid), /^[0-9a-f]{16}$/);
  await assert.rejects(compactDecrypt(jwe, keyOf('another')), { code: 'ERR_JWE_DECRYPTION_FAILED' });
});

test('the same body is never encrypted to the same bytes, and another key has another kid', () => {
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
  test(`nobody reads on the way what goes to ${url}`, () => assert.equal(isReadable(new URL(url)), false));
}
for (const host of ['a.test', '10.0.0.1', '127.0.0.1.a.test', 'localhost.a.test', '[::ffff:127.0.0.1]', '0.0.0.0']) {
  test(`what goes to http://${host} could be read on the way`, () =>
    assert.equal(isReadable(new URL(`http://${host}/`)), true));
}
