import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHash } from 'node:crypto';
import { compactDecrypt } from 'jose';
import { isReadable } from '#core/loopback.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { Bodies, encryptBody, EventCache } from './bodies.ts';
import type { EventRow } from '../delivery-sql.ts';

const CACHE_BYTES = 256 * 1024;
/** A sixteenth of the cache holds three of them; a fourth exceeds it. */
const TEXT_BYTES = 5_000;

/** Events of one store, each with a long text. */
async function publishLong(count: number) {
  const engine = await startEngine();
  await engine.addWebhook('http://127.0.0.1:1/');
  const events = Array.from({ length: count }, (_, index) => ({
    type: 'transaction' as const,
    action: 'created',
    resourceId: String(index),
    modifiedAt: null,
    body: JSON.stringify({ id: index, text: 'x'.repeat(TEXT_BYTES) }),
  }));
  const published = await engine.publisher({ storeId: engine.storeId, events, now: engine.clock.now() });
  const ids = published.map(({ id }) => id);
  const bodies = new Bodies({ sql: engine.sql }, { bodyCacheBytes: CACHE_BYTES });
  const keyOf = (eventId: number) => ({ storeId: engine.storeId, eventId });
  return { ids, bodies, keyOf };
}

// Bodies

test('an event of another store with the same id is not taken for the one that is cached', async () => {
  const { ids, bodies, keyOf } = await publishLong(1);
  const [id = assert.fail()] = ids;
  assert.ok(await bodies.find(keyOf(id)));
  assert.equal(await bodies.find({ ...keyOf(id), storeId: keyOf(id).storeId + 256 }), undefined);
});

test('for long events, a load reads the first ones requested, up to its limit', async () => {
  const { ids, bodies, keyOf } = await publishLong(8);
  const asked = ids.toReversed();
  await bodies.load(asked.map(keyOf));
  assert.deepEqual(
    asked.filter((id) => bodies.peek(keyOf(id)) !== undefined),
    asked.slice(0, 4),
  );
});

test('an event that a load left out is read when it is needed', async () => {
  const { ids, bodies, keyOf } = await publishLong(8);
  await bodies.load(ids.map(keyOf));
  const found = await Promise.all(ids.map((id) => bodies.find(keyOf(id))));
  assert.deepEqual(
    found.map((body) => body?.event.id),
    ids,
  );
});

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

// The cache of events

const eventOf = (id: number, characters = 2): EventRow => ({
  id,
  storeId: 256,
  type: 'customer',
  resourceId: '1',
  action: 'created',
  version: 1,
  nonce: 1,
  baseUrl: 'http://localhost',
  dateCreated: new Date(0),
  body: 'x'.repeat(characters),
  traceContext: null,
});

test('an event is evicted with its last delivery, and not before', () => {
  const cache = new EventCache(1_000_000);
  cache.add(eventOf(1));
  cache.retain(1);
  cache.retain(1);
  cache.release(1);
  assert.equal(cache.has(1), true);
  cache.release(1);
  assert.equal(cache.has(1), false);
});

test('above its byte limit the cache evicts the oldest events, in use or not, and some more', () => {
  const cache = new EventCache(20 * 4_512);
  for (let id = 1; id <= 21; id += 1) {
    cache.add(eventOf(id, 1_000));
    cache.retain(id);
  }
  assert.deepEqual(
    cache.ids(),
    Array.from({ length: 17 }, (_, index) => index + 5),
  );
});

test('an evicted event frees its bytes for others', () => {
  const cache = new EventCache(10_000);
  for (let id = 1; id <= 100; id += 1) {
    cache.add(eventOf(id, 1_000));
    cache.retain(id);
    if (id > 1) cache.release(id);
  }
  assert.deepEqual(cache.ids(), [1]);
});
