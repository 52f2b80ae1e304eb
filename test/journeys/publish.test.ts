/** Publishing over the API, and its results: versions, representations, deliveries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startEngine } from '../setup/engine.ts';

const app = await startTestApp();
const { storeId, platformToken } = app;
const events = `/stores/${storeId}/events`;

type Json = Record<string, unknown>;
type Fault = { code: string; field?: string };

const publish = (body: unknown, token = platformToken) => app.api('POST', events, { token, body });
const created = (resource: Json) => ({ event: 'transaction/created', resource });
const bodyOf = async (response: Response): Promise<Json> => (await response.json()) as Json;
const faultsOf = (body: Json): Fault[] => (body['_embedded'] as { 'svc:errors': Fault[] })['svc:errors'];
const transaction = (id: number | string, query = '') =>
  app.api('GET', `/stores/${storeId}/transactions/${encodeURIComponent(id)}${query}`);
async function countsOf() {
  const [row] =
    await app.sql`select (select count(*) from event) as events, (select count(*) from resource) as resources`;
  return { ...row };
}

const STORES = 200;
const WEBHOOKS_A_STORE = 100;
const EVENTS = 10;

const ends = cleanups();
const { address } = await testDatabase(ends);
// One connection: it reports what it has read to the statistics on request.
const sql = openPool(address, { connections: 1, applicationName: 'matching' });
ends.after(() => sql.end({ timeout: 0 }));
const engine = await startEngine({ sql, ends });

// Requests

test('an event is created, with its address', async () => {
  const response = await publish(created({ id: 1, total: 5 }));
  assert.equal(response.status, 201);
  const body = await bodyOf(response);
  assert.deepEqual(
    [body['event'], body['resource_type'], body['resource_id'], body['resource_version']],
    ['transaction/created', 'transaction', '1', 1],
  );
  const links = body['_links'] as Record<string, { href: string }>;
  assert.equal(response.headers.get('location'), links['self']?.href);
  assert.deepEqual(await bodyOf(await app.api('GET', links['self']?.href ?? '')), body);
  assert.equal((await bodyOf(await app.api('GET', links['svc:resource']?.href ?? '')))['total'], 5);
});

test('a store token cannot publish', async () => {
  const before = await countsOf();
  const response = await publish(created({ id: 2 }), app.token);
  assert.equal(response.status, 403);
  assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer .*error="insufficient_scope"/);
  assert.equal((await bodyOf(response))['error'], 'insufficient_scope');
  assert.deepEqual(await countsOf(), before);
});

test('a store that does not exist is a 404 and leaves nothing', async () => {
  const before = await countsOf();
  const response = await app.api('POST', `/stores/${storeId + 256}/events`, {
    token: platformToken,
    body: created({ id: 2 }),
  });
  assert.equal(response.status, 404);
  assert.deepEqual(await countsOf(), before);
});

test('an array is published whole or not at all, and answers one result each', async () => {
  const before = await countsOf();
  const half = await publish([created({ id: 10 }), { event: 'transaction/exploded', resource: { id: 11 } }]);
  assert.equal(half.status, 400);
  assert.deepEqual(
    faultsOf(await bodyOf(half)).map(({ field }) => field),
    ['1.event'],
  );
  assert.deepEqual(await countsOf(), before);
  const whole = await publish([created({ id: 10 }), created({ id: 11 }), created({ id: 10 })]);
  assert.equal(whole.status, 200);
  const results = (await bodyOf(whole))['_embedded'] as { 'svc:events': Json[] };
  assert.deepEqual(
    results['svc:events'].map((event) => [event['resource_id'], event['resource_version']]),
    [
      ['10', 1],
      ['11', 1],
      ['10', 2],
    ],
  );
});

test('versions increase by one under concurrent publishes of the same resource', async () => {
  const responses = await Promise.all(Array.from({ length: 40 }, (_, n) => publish(created({ id: 'same', n }))));
  const versions = await Promise.all(responses.map(async (response) => (await bodyOf(response))['resource_version']));
  assert.deepEqual(
    versions.toSorted((a, b) => Number(a) - Number(b)),
    Array.from({ length: 40 }, (_, n) => n + 1),
  );
});

test('an older version is an event and does not replace the newer one', async () => {
  await publish(created({ id: 20, total: 2, date_modified: '2026-11-02T00:00:00+0000' }));
  const older = await publish(created({ id: 20, total: 1, date_modified: '2026-11-01T00:00:00+0000' }));
  assert.equal(older.status, 201);
  assert.equal((await bodyOf(await transaction(20)))['total'], 2);
  await publish(created({ id: 20, total: 3, date_modified: '2026-11-03T00:00:00+0000' }));
  assert.equal((await bodyOf(await transaction(20)))['total'], 3);
});

test('the payload of an event never changes', async () => {
  const first = await bodyOf(await publish(created({ id: 30, total: 1 })));
  await publish(created({ id: 30, total: 2 }));
  const payload = (first['_links'] as Record<string, { href: string }>)['svc:payload']?.href ?? '';
  assert.equal((await bodyOf(await app.api('GET', payload)))['total'], 1);
  assert.equal((await bodyOf(await transaction(30)))['total'], 2);
});

test('an id may be any text; its address is encoded', async () => {
  await publish(created({ id: 'a/b ?ü', total: 4 }));
  const body = await bodyOf(await transaction('a/b ?ü'));
  assert.equal(body['id'], 'a/b ?ü');
  const { self } = body['_links'] as Record<string, { href: string }>;
  assert.equal((await bodyOf(await app.api('GET', self?.href ?? '')))['total'], 4);
});

test('an address that no resource can have is a 404, or a 400 in the common error format', async () => {
  for (const [path, status] of [
    ['%00', 404],
    ['a'.repeat(65), 404],
    ['a'.repeat(255), 404],
    ['a'.repeat(256), 414],
    ['%FF', 400],
  ] as const) {
    const response = await app.api('GET', `/stores/${storeId}/transactions/${path}`);
    assert.equal(response.status, status, path);
    assert.ok(faultsOf(await bodyOf(response)).length > 0, path);
  }
});

test('zoom embeds what the publisher embedded, and reports an unknown relation', async () => {
  await publish(created({ id: 40, _embedded: { 'svc:items': [{ name: 'Brush' }] } }));
  assert.deepEqual((await bodyOf(await transaction(40, '?zoom=items')))['_embedded'], {
    'svc:items': [{ name: 'Brush' }],
  });
  assert.equal((await bodyOf(await transaction(40)))['_embedded'], undefined);
  const wrong = await transaction(40, '?zoom=wings');
  assert.equal(wrong.status, 400);
  const relation = await bodyOf(await app.api('GET', `/stores/${storeId}/transactions/40/items`));
  assert.equal(relation['total_items'], '1');
});

test('a webhook receives what GET answers with its query, byte for byte', async () => {
  const receiver = await startReceiver();
  const query = 'zoom=items,items:item_options,customer&fields=id,total,note';
  const webhook = {
    name: 'w',
    format: 'json',
    encryption_key: 'k',
    url: receiver.url,
    event_resource: 'transaction',
    query,
  };
  assert.equal((await app.api('POST', `/stores/${storeId}/webhooks`, { body: webhook })).status, 201);
  const resource = {
    id: 50,
    total: 12.5,
    note: 'Zoë said "5 < 6" \u2028 \ud83d\ude00',
    hidden: true,
    _embedded: {
      'svc:items': [{ name: 'Brush', _embedded: { 'svc:item_options': [{ name: 'red' }] } }],
      customer: { id: 9 },
    },
  };
  await publish(created(resource));
  await receiver.until(1);
  const get = Buffer.from(await (await transaction(50, `?${query}`)).arrayBuffer());
  assert.equal(receiver.got[0]?.body.toString(), get.toString());
  assert.ok(receiver.got[0]?.body.equals(get));
});

test('a form publishes one event, its resource as JSON text', async () => {
  const form = new URLSearchParams({ event: 'transaction/created', resource: '{"id":77,"total":5}' });
  const publishForm = () =>
    fetch(app.baseUrl + events, {
      method: 'POST',
      headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${platformToken}` },
      body: form,
    });
  assert.equal((await publishForm()).status, 201);
  assert.equal((await bodyOf(await transaction(77)))['total'], 5);
  form.set('resource', '{"id":77,');
  const refused = await publishForm();
  assert.deepEqual([refused.status, faultsOf(await bodyOf(refused))[0]?.field], [400, 'resource']);
});

test('an internal event cannot be published', async () => {
  const response = await publish({ event: 'changelog/created', resource: { id: 1 } });
  assert.equal(response.status, 409);
});

test('16 MiB may be published at once, elsewhere the limit is 1 MiB', async () => {
  const big = Array.from({ length: 100 }, (_, id) => created({ id: 1_000 + id, text: 'x'.repeat(100_000) }));
  assert.equal((await publish(big)).status, 200);
  const tooBig = await app.api('POST', `/stores/${storeId}/webhooks`, { body: { name: 'x'.repeat(1_100_000) } });
  assert.equal(tooBig.status, 413);
});

// Matching webhooks

/** Returns the rows of webhooks that were read, by any access path. */
async function rowsRead(): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [row] = await sql<{ read: number }[]>`
    select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as read from pg_stat_user_tables where relname = 'webhook'`;
  return row?.read ?? 0;
}

test('a publish reads the webhooks of its own store and no others of its shard', async () => {
  const { storeId: ofEngine } = engine;
  const shard = shardOf(ofEngine);
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    select shard, id + n * 256, name, domain, email, time_zone, date_created, date_modified
    from store, generate_series(1, ${STORES}::int) n where id = ${ofEngine}`;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    select ${shard}, (5000000 + n) * 256 + ${shard}, ${ofEngine} + 256 * (1 + n % ${STORES}::int), 'hook', 'json', '2', 'http://127.0.0.1:9/', '\\x00',
      'transaction', array['transaction/created'], true, '{}', 'hour', now(), now()
    from generate_series(1, ${STORES * WEBHOOKS_A_STORE}::int) n`;
  await engine.addWebhook('http://127.0.0.1:9/');
  await sql`analyze webhook`;
  const before = await rowsRead();
  const published = await engine.publish(Array.from({ length: EVENTS }, (_, id) => id + 1));
  assert.equal(published.length, EVENTS);
  const read = (await rowsRead()) - before;
  const [deliveries] = await sql<{ n: number }[]>`select count(*) as n from delivery where store_id = ${ofEngine}`;
  assert.equal(deliveries?.n, EVENTS);
  assert.ok(read >= EVENTS && read <= 2 * EVENTS, `${read} rows were read for ${EVENTS} events`);
});
