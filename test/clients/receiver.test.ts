/** The deliveries that packages/receiver accepts and rejects, compared to third-party packages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compactDecrypt, CompactEncrypt } from 'jose';
import { Webhook as Standard } from 'standardwebhooks';
import { Webhook as Svix } from 'svix';
import { rememberIds, verifyDelivery, WebhookError, type Arrival } from '#receiver';
import {
  cipherKey,
  ENCRYPTED_TYPE as ENCRYPTED,
  KEY,
  NOW,
  OTHER,
  sealed,
  sent,
  TYPE,
  type Sent,
} from './receiver/signed-delivery.ts';

const now = () => NOW;
const verify = (delivery: Sent, keys: Arrival['keys'] = [KEY]) => verifyDelivery({ ...delivery, keys, now });
function without({ headers, body }: Sent, name: string): Sent {
  const { [name]: _left, ...rest } = headers;
  return { headers: rest, body };
}
const refuses = (found: Promise<unknown>, code: string, message: RegExp) =>
  assert.rejects(found, (error) => {
    assert.ok(error instanceof WebhookError, String(error));
    assert.equal(error.code, code);
    assert.equal(error.status, ['no_key', 'not_raw'].includes(code) ? 500 : 401);
    assert.match(error.message, message);
    return true;
  });

test('the package accepts signatures of standardwebhooks and svix, and rejects what they reject', async () => {
  const delivery = sent();
  const text = Buffer.from(delivery.body).toString();
  const id = delivery.headers['webhook-id'] ?? '';
  for (const signer of [new Standard(KEY), new Svix(KEY)]) {
    const theirs = { ...delivery.headers, 'webhook-signature': signer.sign(id, NOW, text) };
    await verify({ ...delivery, headers: theirs });
    const late = { ...theirs, 'webhook-signature': signer.sign(id, new Date(NOW.getTime() + 1_000), text) };
    await refuses(verify({ ...delivery, headers: late }), 'bad_signature', /raw/);
  }
});

test('the package decrypts encryptions of jose, and jose decrypts those of the engine', async () => {
  const plain = Buffer.from('{"id":1}');
  const jwe = await new CompactEncrypt(plain)
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', cty: 'hal+json' })
    .encrypt(cipherKey(KEY));
  const theirs = await verify(sent({ body: Buffer.from(jwe), contentType: `${ENCRYPTED}; charset=utf-8` }), [
    OTHER,
    KEY,
  ]);
  assert.deepEqual([theirs.contentType, theirs.json()], [TYPE, { id: 1 }]);
  const encrypted = sent({ body: plain, isEncrypted: true });
  assert.deepEqual(Buffer.from((await compactDecrypt(encrypted.body, cipherKey(KEY))).plaintext), plain);
  assert.deepEqual((await verify(encrypted)).json(), { id: 1 });
});

test('both signatures are required: the hex one does not cover the time, the other could be moved along the body', async () => {
  const delivery = sent();
  await refuses(verify(without(delivery, 'webhook-signature')), 'missing_header', /webhook-signature is missing/);
  await refuses(verify(without(delivery, 'service-webhook-signature')), 'missing_header', /Service-Webhook-Signature/);
  for (const name of ['webhook-signature', 'service-webhook-signature']) {
    const foreign = { ...delivery.headers, [name]: sent({ key: OTHER }).headers[name] ?? '' };
    await refuses(verify({ ...delivery, headers: foreign }), 'bad_signature', /^No key fits/);
  }
});

test('the first eight signatures of a header are read, and unknown versions are skipped', async () => {
  const delivery = sent();
  const right = delivery.headers['webhook-signature'] ?? '';
  const wrong = sent({ key: OTHER }).headers['webhook-signature'] ?? '';
  const among = (before: number) => {
    const list = `${`${wrong} `.repeat(before)}${right} v1a,AAAA`;
    return verify({ ...delivery, headers: { ...delivery.headers, 'webhook-signature': list } });
  };
  assert.equal((await among(7)).attempt, 2);
  await refuses(among(8), 'bad_signature', /^No key fits/);
});

const GOOD = { alg: 'dir', enc: 'A256GCM' };

test('a JWE with another algorithm, compression, extension or shape is rejected, though all of it is signed', async () => {
  assert.equal((await verify(sealed(GOOD))).contentType, 'application/octet-stream');
  const wrong: readonly (readonly [Sent, RegExp])[] = [
    [sealed({ ...GOOD, alg: 'A256KW' }), /only alg dir/],
    [sealed({ ...GOOD, enc: 'A128GCM' }), /only alg dir/],
    [sealed({ ...GOOD, zip: 'DEF' }), /zip and crit/],
    [sealed({ ...GOOD, crit: ['exp'] }), /zip and crit/],
    [sealed(GOOD, { wrapped: 'AAAA' }), /direct key/],
    [sealed(GOOD, { nonceBytes: 16 }), /another length/],
    [sent({ body: Buffer.from('a.b.c'), contentType: ENCRYPTED }), /compact JWE/],
    [sent({ body: Buffer.from('bm8..AAAA.AAAA.AAAA'), contentType: ENCRYPTED }), /head is no JSON/],
  ];
  for (const [delivery, message] of wrong) await refuses(verify(delivery), 'not_decrypted', message);
  const foreign = sent({
    body: Buffer.from(await new CompactEncrypt(Buffer.from('{}')).setProtectedHeader(GOOD).encrypt(cipherKey(OTHER))),
    contentType: ENCRYPTED,
  });
  await refuses(verify(foreign), 'not_decrypted', /none of the keys/);
});

test('headers may come as in fetch, in any case and as lists; the body as bytes, a buffer or text', async () => {
  const { headers, body } = sent();
  const loud = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]));
  const text = Buffer.from(body).toString();
  for (const shape of [new Headers(headers), loud, headers])
    for (const form of [body, Uint8Array.from(body).buffer, text]) {
      const delivery = await verifyDelivery({ headers: shape, body: form, keys: [KEY], now });
      assert.deepEqual(delivery.json(), { id: 70012, name: 'Zoë' });
    }
});

test("errors of the receiver's configuration are distinguished from errors of the delivery", async () => {
  const delivery = sent();
  await refuses(verify(delivery, [undefined, '']), 'no_key', /encryption_key set/);
  await refuses(verify(delivery, ['whsec_A']), 'bad_signature', /No key fits/);
  const parsed = { headers: delivery.headers, body: { id: 1 } } as unknown as Sent;
  await refuses(verify(parsed), 'not_raw', /parsed already/);
  await refuses(verify(without(delivery, 'service-webhook-event')), 'missing_header', /Service-Webhook-Event/);
  const odd = { ...delivery, headers: { ...delivery.headers, 'service-store-id': '1e3' } };
  await refuses(verify(odd), 'bad_header', /Service-Store-ID is not a whole number/);
});

test('the returned bytes are the verified ones, though the buffer is reused meanwhile', async () => {
  const delivery = sent();
  const found = verify(delivery);
  delivery.body.fill(0);
  assert.deepEqual((await found).json(), { id: 70012, name: 'Zoë' });
});

test('a repeated id is recognized, until as many others as are remembered have come', () => {
  const isNew = rememberIds(2);
  assert.deepEqual(['a', 'b', 'a', 'c', 'a', 'c'].map(isNew), [true, true, false, true, true, false]);
});

test('WebCrypto verifies each signature, in constant time; the package computes and compares none', async (t) => {
  const verified = t.mock.method(crypto.subtle, 'verify').mock;
  const signed = t.mock.method(crypto.subtle, 'sign').mock;
  await verify(sent());
  await refuses(verify(sent({ key: OTHER })), 'bad_signature', /No key fits/);
  // The hex one and that of Standard Webhooks of the first, and at least one of the second.
  assert.ok(verified.callCount() >= 3, String(verified.callCount()));
  assert.equal(signed.callCount(), 0);
});
