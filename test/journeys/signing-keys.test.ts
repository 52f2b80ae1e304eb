/** Webhooks that sign with Ed25519: jose and the receiver package verify them with public keys that anyone may read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calculateJwkThumbprint, createRemoteJWKSet, type JWK } from 'jose';
import { verifyDelivery } from '#receiver';
import { startTestApp } from '../setup/app.ts';
import { passingClock } from '../setup/clock.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { respond } from '../setup/send.ts';
import type { Representation } from '../setup/webhook-api.ts';

/** RFC 8032 §7.1, test 1: the private key, the same with its public key, and the public key. */
const SIGNING = 'whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=';
const PUBLIC = 'whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';
const bytesOf = (key: string) => Buffer.from(key.slice(5), 'base64');
const PAIR = `whsk_${Buffer.concat([bytesOf(SIGNING), bytesOf(PUBLIC)]).toString('base64')}`;
const SECRET = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';

const clock = passingClock();
const app = await startTestApp({ clock, roles: ['serve'] });
const receiver = await startReceiver();
receiver.answer((_got, response) => void response.writeHead(204).end());

async function call(method: string, path: string, body?: object, token = app.token) {
  const response = await app.api(method, path, { ...(body && { body }), token });
  const text = await response.text();
  const json = JSON.parse(text || '{}') as Representation;
  const faults = (json._embedded?.['svc:errors'] ?? []).map(
    (fault) => `${String(fault['field'])} ${String(fault['code'])}`,
  );
  return { status: response.status, json, text, faults };
}
async function create(key: string, changes: object = {}): Promise<string> {
  const hook = {
    name: 'Orders',
    format: 'json',
    url: receiver.url,
    event_resource: 'transaction',
    encryption_key: key,
  };
  const made = await call('POST', `/stores/${app.storeId}/webhooks`, { ...hook, ...changes });
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.json['id'])}`;
}
/** Sends a sample event, and returns what arrived. */
async function deliver(at: string): Promise<Got> {
  const sent = await call('POST', `${at}/test`);
  assert.equal(sent.json['outcome'], 'delivered', sent.text);
  return receiver.got.at(-1) ?? assert.fail();
}
async function keysAt(at: string): Promise<JWK[]> {
  const response = await respond(`${app.baseUrl}${at}/jwks.json`, {});
  assert.equal(response.status, 200);
  return ((await response.json()) as { keys: JWK[] }).keys;
}

/** Verifies by the keys of jose what Standard Webhooks says, with each of the public keys. */
async function verifiedBy(at: string, { headers, body }: Got): Promise<boolean[]> {
  const message = Buffer.concat([
    Buffer.from(`${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.`),
    body,
  ]);
  const signatures = String(headers['webhook-signature'])
    .split(' ')
    .flatMap((one) => (one.startsWith('v1a,') ? [Buffer.from(one.slice(4), 'base64')] : []));
  const remote = createRemoteJWKSet(new URL(`${app.baseUrl}${at}/jwks.json`));
  const keys = await keysAt(at);
  return Promise.all(
    keys.map(async (jwk) => {
      assert.equal(jwk.kid, await calculateJwkThumbprint(jwk));
      const key = await remote({ alg: 'EdDSA', kid: jwk.kid ?? '' });
      const all = signatures.map((signature) => crypto.subtle.verify('Ed25519', key, signature, message));
      return (await Promise.all(all)).includes(true);
    }),
  );
}
const receive = async ({ headers, body }: Got, key: string) =>
  verifyDelivery({ headers, body, keys: [key], now: () => clock.now() });

test('a webhook with an Ed25519 key has a public key, which anyone may read and which verifies its deliveries', async () => {
  for (const key of [SIGNING, PAIR]) {
    const at = await create(key);
    const { json } = await call('GET', at);
    assert.deepEqual([json['public_key'], json['next_public_key'], json['encryption_key']], [PUBLIC, null, key]);
    assert.equal(json._links['svc:jwks']?.href, `${app.baseUrl}${at}/jwks.json`);
    const got = await deliver(at);
    assert.match(String(got.headers['webhook-signature']), /^v1a,[A-Za-z0-9+/]{86}==$/);
    assert.equal(got.headers['service-webhook-signature'], undefined, 'there is no secret to prove');
    assert.deepEqual(await verifiedBy(at, got), [true]);
    assert.equal((await receive(got, PUBLIC)).isTest, true);
    await assert.rejects(receive({ ...got, body: Buffer.from('{}') }, PUBLIC), { code: 'bad_signature' });
  }
});

test('other readers see the public key and not the private one', async () => {
  const at = await create(SIGNING);
  const { json, text } = await call('GET', at, undefined, app.platformToken);
  assert.equal(json['public_key'], PUBLIC);
  assert.equal(text.includes(SIGNING.slice(5)), false);
});

test('no key of a webhook with a secret is public, and none of a webhook that does not exist', async () => {
  const at = await create(SECRET);
  const { json } = await call('GET', at);
  assert.deepEqual([json['public_key'], json._links['svc:jwks']], [null, undefined]);
  for (const path of [at, '/webhooks/1', '/webhooks/x'])
    assert.equal((await respond(`${app.baseUrl}${path}/jwks.json`, {})).status, 404, path);
});

test('a rotation leads from a secret to an Ed25519 key, to another one, and back, and both keys verify meanwhile', async () => {
  const at = await create(SECRET);
  const rotate = async (body: object) => {
    const rotated = await call('POST', `${at}/rotate_key`, body);
    assert.equal(rotated.status, 200, rotated.text);
    return rotated.json;
  };
  const first = await rotate({ key_type: 'ed25519' });
  assert.match(String(first['next_encryption_key']), /^whsk_/);
  assert.deepEqual([first['public_key'], typeof first._links['svc:jwks']], [null, 'object']);
  const becoming = await deliver(at);
  assert.match(String(becoming.headers['webhook-signature']), /^v1,\S+ v1a,\S+$/);
  assert.equal(becoming.headers['service-webhook-signature-next'], undefined);
  assert.deepEqual(await verifiedBy(at, becoming), [true]);
  await receive(becoming, SECRET);
  await receive(becoming, String(first['next_public_key']));
  await rotate({ finish: true });
  const second = await rotate({});
  assert.match(String(second['next_encryption_key']), /^whsk_/, 'of the same type, unless the request says another');
  const both = await deliver(at);
  assert.deepEqual(await verifiedBy(at, both), [true, true]);
  assert.deepEqual(
    (await keysAt(at)).map(({ x }) => `whpk_${Buffer.from(String(x), 'base64url').toString('base64')}`),
    [second['public_key'], second['next_public_key']],
  );
  await rotate({ finish: true });
  assert.equal((await keysAt(at)).length, 1);
  const third = await rotate({ key_type: 'hmac' });
  assert.match(String(third['next_encryption_key']), /^whsec_/);
  const returning = await deliver(at);
  await receive(returning, String(second['next_public_key']));
  assert.ok(returning.headers['service-webhook-signature-next']);
  await rotate({ finish: true });
  assert.equal((await respond(`${app.baseUrl}${at}/jwks.json`, {})).status, 404);
});

test('what is no Ed25519 key, and one that would encrypt, is refused with what to change', async () => {
  const at = await create(SECRET);
  const wrongPair = `whsk_${Buffer.concat([bytesOf(SIGNING), Buffer.alloc(32, 1)]).toString('base64')}`;
  for (const key of ['whsk_', 'whsk_abc', `${SIGNING} `, SIGNING.slice(0, -4), wrongPair, PUBLIC]) {
    const { status, faults } = await call('PATCH', at, { encryption_key: key });
    assert.deepEqual([status, faults], [400, ['encryption_key invalid_value']], key);
    assert.equal((await call('POST', `${at}/rotate_key`, { encryption_key: key })).status, 400, key);
  }
  const plain = { url: 'http://hooks.example.com/' };
  assert.deepEqual((await call('PATCH', at, { ...plain, encryption_key: SIGNING })).faults, [
    'encryption_key invalid_value',
  ]);
  assert.equal((await call('PATCH', at, { ...plain, encryption_key: SIGNING, format: 'cloudevents' })).status, 200);
  const signing = await create(SIGNING);
  assert.deepEqual((await call('PATCH', signing, plain)).faults, ['encryption_key invalid_value'], 'a key that stays');
  const overHttp = await create(SECRET, plain);
  assert.equal((await call('POST', `${overHttp}/rotate_key`, { key_type: 'ed25519' })).status, 400);
  const rotating = await create(SECRET);
  await call('POST', `${rotating}/rotate_key`, { key_type: 'ed25519' });
  assert.deepEqual((await call('PATCH', rotating, plain)).faults, ['encryption_key invalid_value'], 'the next key');
  for (const body of [
    { key_type: 'ed25519', finish: true },
    { key_type: 'hmac', encryption_key: 'another' },
  ])
    assert.deepEqual((await call('POST', `${rotating}/rotate_key`, body)).faults, ['key_type invalid_value']);
});
