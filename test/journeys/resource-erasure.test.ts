/**
 * The platform erases one resource, with its steps and events: from the answer on it can be neither read nor sent, and its copies follow.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceErased } from '#delivery/announce.ts';
import { blankAnswers } from '#delivery/record/record-sql.ts';
import { createErasurePurges, eraseResource, type EventCaches } from '#events/erase/erasure.ts';
import { createLog } from '#core/log.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { startTestApp } from '../setup/app.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';

const app = await startTestApp();
const { api, sql, clock, storeId, platformToken: token } = app;
const shard = shardOf(storeId);
const at = `/stores/${storeId}`;
const BATCH = 2_000;

type Json = Record<string, unknown>;

async function publishAll(...events: [event: string, resource: Json][]): Promise<Json> {
  const body = events.map(([event, resource]) => ({ event, resource }));
  const answer = await api('POST', `${at}/events`, { token, body: body.length === 1 ? body[0] : body });
  assert.ok(answer.ok, await answer.clone().text());
  return (await answer.json()) as Json;
}
const eraseAt = async (path: string): Promise<void> =>
  assert.equal((await api('DELETE', at + path, { token })).status, 204);
const version = (id: string, frequency: string): [string, Json] => [
  'subscription/modified',
  { id, frequency, is_active: true, customer_email: `bob@${id}.example` },
];
async function stepsOf(id: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from resource where type = 'subscription_event' and body like ${`%bob@${id}.example%`} order by id`;
  return rows.map((row) => row.id);
}
const eventsWith = (text: string) =>
  sql<{ id: number }[]>`select id from event where body like ${`%${text}%`} order by id`;

const caches: EventCaches = { announce: announceErased, forget: () => {} };
const keyOf = (id: string) => ({ shard, storeId, type: 'transaction' as const, id });
const eraseHere = (id: string, by: EventCaches = caches) =>
  eraseResource({ sql: storesOf(sql), caches: by }, keyOf(id), { unmodified: () => {}, now: clock.now() });

const receiver = await startReceiver();

// What is derived from a resource

test('the steps of an erased subscription are erased with it, and those of another stay', async () => {
  await publishAll(version('s1', '1m'), version('s2', '1m'), version('s1', '2m'));
  await publishAll(version('s1', '3m'));
  await publishAll(version('s2', '2m'), version('s1', '4m'), version('s1', '5m'));
  const [steps, others] = [await stepsOf('s1'), await stepsOf('s2')];
  assert.deepEqual([steps.length, others.length], [5, 2]);
  // In the middle of the chain: one that was erased by itself, and one whose event's day was dropped.
  await eraseAt(`/subscription_events/${steps[1]}`);
  await sql`delete from event where shard = ${shard} and id = ${Number(steps[2])}`;
  await eraseAt('/subscriptions/s1');
  assert.deepEqual(await stepsOf('s1'), []);
  assert.deepEqual([...(await eventsWith('bob@s1.'))], []);
  for (const id of steps) assert.equal((await api('GET', `${at}/subscription_events/${id}`)).status, 404);
  assert.equal((await api('GET', `${at}/events/${steps[0]}/payload`)).status, 404);
  assert.deepEqual(await stepsOf('s2'), others);
  assert.equal((await api('GET', `${at}/events/${others[0]}/payload`)).status, 200);
});

test('a version of an erased subscription that is published again is erased with the next erasure', async () => {
  await publishAll(version('s3', '1m'));
  await eraseAt('/subscriptions/s3');
  await publishAll(version('s3', '1m'), version('s3', '2m'));
  assert.equal((await stepsOf('s3')).length, 2);
  await eraseAt('/subscriptions/s3');
  assert.deepEqual([...(await eventsWith('bob@s3.'))], []);
});

/** Creates one resource with this many events, each after the one before it. */
async function longChain(id: string, count: number): Promise<void> {
  const first = dailyIdOf(dayOf(clock.now()), 2 ** 29, shard);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, previous_id, time_zone,
      base_url, date_created, body)
    select ${shard}, ${first}::bigint + n * 256, ${storeId}, 'transaction', ${id}, 'modified', n, 1,
      case when n > 1 then ${first}::bigint + (n - 1) * 256 end, 'UTC', 'x', now(), ${JSON.stringify({ id })}
    from generate_series(1, ${count}::int) as n`;
  await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, head_event_id, time_zone, base_url, body)
    select shard, store_id, resource_type, resource_id, version, now(), id, id, 'UTC', 'x', body
    from event where shard = ${shard} and id = ${first + count * 256}`;
}
async function full(id: string): Promise<number> {
  const rows = await sql`select from event where resource_id = ${id} and body <> ''`;
  return rows.length;
}

test('a resource with very many events is erased in batches, before the answer', async () => {
  await longChain('long', 2 * BATCH + 1);
  const sizes: number[] = [];
  await eraseHere('long', { ...caches, forget: ({ ids }) => void sizes.push(ids.length) });
  assert.deepEqual(sizes, [BATCH, BATCH, 1]);
  assert.equal(await full('long'), 0);
  assert.equal((await sql`select from erased_chain`).length, 0);
  await sql`delete from event where resource_id = 'long'`;
});

test('the rest of an erasure whose process ended is erased by retention', async () => {
  await longChain('left', BATCH + 150);
  let batches = 0;
  const ends = () => ((batches += 1) === 2 ? Promise.reject(new Error('the process ends here')) : Promise.resolve());
  await assert.rejects(eraseHere('left', { ...caches, announce: ends }), /ends here/);
  assert.equal(await full('left'), 150);
  const [rest] = createErasurePurges({ sql: storesOf(sql), log: createLog('silent'), caches, blankAnswers });
  assert.equal(await rest?.purge(100, clock.now()), 100);
  assert.equal(await rest?.purge(100, clock.now()), 50);
  assert.equal(await full('left'), 0);
  assert.equal((await sql`select from erased_chain`).length, 0);
});

test('a publish that waits for an erasure continues from the version that was erased', async () => {
  for (let n = 0; n < 3; n += 1) await publishAll(['transaction/modified', { id: 'raced' }]);
  let racing: Promise<Json> | undefined;
  const waiting = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const announce = async () => {
    racing = publishAll(['transaction/modified', { id: 'raced' }], ['transaction/modified', { id: 'beside' }]);
    await until(waiting, (rows) => rows.length === 1);
  };
  await eraseHere('raced', { ...caches, announce });
  const { _embedded } = (await racing) as { _embedded: { 'svc:events': { resource_version: number }[] } };
  assert.deepEqual(
    _embedded['svc:events'].map((event) => event.resource_version),
    [4, 1],
  );
});

// One resource

const HOUR_MS = 3_600_000;

type Published = { id: number; resource_version: number };
const publish = async (event: string, resource: Json, headers: Record<string, string> = {}): Promise<Published> =>
  (await (await api('POST', `${at}/events`, { token, body: { event, resource }, headers })).json()) as Published;
async function get(path: string): Promise<{ status: number; json: Json }> {
  const response = await api('GET', at + path);
  return { status: response.status, json: (await response.json()) as Json };
}
const erase = async (path: string, headers: Record<string, string> = {}): Promise<number> =>
  (await api('DELETE', at + path, { token, headers })).status;
const codeOf = ({ json }: { json: Json }): unknown =>
  (json as { _embedded: { 'svc:errors': { code: string }[] } })._embedded['svc:errors'][0]?.code;
const payloadCodes = async (events: readonly Published[]): Promise<unknown[]> =>
  Promise.all(events.map(async ({ id }) => codeOf(await get(`/events/${id}/payload`))));

async function addWebhook(events: string[], url: string): Promise<number> {
  const body = { name: 'Hook', format: 'json', encryption_key: 'a key', url, events };
  return ((await (await api('POST', `${at}/webhooks`, { body })).json()) as { id: number }).id;
}

test('an erased resource cannot be read, nor the payloads of its events, which stay in the list', async () => {
  const first = await publish('transaction/created', { id: 't1', email: 'ada@example.com' });
  const second = await publish('transaction/modified', { id: 't1', email: 'ada@example.com' });
  assert.equal(await erase('/transactions/t1'), 204);
  assert.equal((await get('/transactions/t1')).status, 404);
  assert.equal((await get('/transactions/t1/items')).status, 404);
  assert.deepEqual(await payloadCodes([first, second]), ['erased', 'erased']);
  assert.equal((await get(`/events/${first.id}`)).json['resource_id'], 't1');
  const kept = await sql`select from event where body like '%ada@%'`;
  assert.equal(kept.length, 0);
});

test('older versions and those of the same batch are found as well, and no other resource', async () => {
  const dated = (day: number) => ({ id: 't2', date_modified: `2026-01-0${day}T00:00:00Z` });
  await publish('transaction/created', dated(5));
  const stale = await publish('transaction/modified', dated(2));
  const other = await publish('transaction/created', { id: 't3' });
  const body = [dated(6), dated(1), { id: 't4' }, dated(7)].map((resource) => ({
    event: 'transaction/modified',
    resource,
  }));
  await api('POST', `${at}/events`, { token, body });
  assert.equal(await erase('/transactions/t2'), 204);
  assert.deepEqual(await payloadCodes([stale]), ['erased']);
  const left =
    await sql`select resource_id from event where resource_id in ('t2', 't3', 't4') and body <> '' order by 1`;
  assert.deepEqual(
    left.map((row) => row['resource_id']),
    ['t3', 't4'],
  );
  assert.equal((await get(`/events/${other.id}/payload`)).status, 200);
});

test('only the platform erases, only an existing resource, and only if its entity tag matches', async () => {
  await publish('customer/created', { id: 'c1' });
  assert.equal((await api('DELETE', `${at}/customers/c1`)).status, 403);
  assert.equal(await erase('/customers/unknown'), 404);
  const etag = (await api('GET', `${at}/customers/c1`)).headers.get('etag') ?? '';
  await publish('customer/modified', { id: 'c1' });
  assert.equal(await erase('/customers/c1', { 'If-Match': etag }), 412);
  const newer = (await api('GET', `${at}/customers/c1`)).headers.get('etag') ?? '';
  assert.equal(await erase('/customers/c1', { 'If-Match': newer }), 204);
  assert.equal(await erase('/customers/c1'), 404);
});

test('a repeated request of an old key is answered with the event as before', async () => {
  const key = { 'Idempotency-Key': 'k1' };
  const first = await publish('transaction/created', { id: 't5' }, key);
  await erase('/transactions/t5');
  assert.deepEqual(await publish('transaction/created', { id: 't5' }, key), first);
  assert.equal((await get('/transactions/t5')).status, 404);
});

test('the version numbers of a resource continue to increase after its erasure', async () => {
  await publish('transaction/created', { id: 't6' });
  await publish('transaction/modified', { id: 't6' });
  const versions = [];
  for (let life = 0; life < 2; life += 1) {
    await erase('/transactions/t6');
    versions.push((await publish('transaction/created', { id: 't6' })).resource_version);
    versions.push((await publish('transaction/modified', { id: 't6' })).resource_version);
  }
  assert.deepEqual(versions, [3, 4, 5, 6]);
  assert.equal((await publish('transaction/created', { id: 't7' })).resource_version, 1);
});

test('a second erasure covers versions published since the first', async () => {
  await publish('transaction/created', { id: 't8' });
  await erase('/transactions/t8');
  const again = await publish('transaction/created', { id: 't8' });
  assert.equal(await erase('/transactions/t8'), 204);
  assert.deepEqual(await payloadCodes([again]), ['erased']);
});

test('a delivery that waits for its next attempt ends as failed and is not sent', async () => {
  const path = '/waiting';
  await addWebhook(['transaction/captured'], receiver.url + path);
  receiver.answer((_got, response) => void response.writeHead(500).end());
  const { id } = await publish('transaction/captured', { id: 't9' });
  const pending = () => sql<{ attempts: number }[]>`select attempts from delivery where event_id = ${id}`;
  await until(pending, ([delivery]) => delivery?.attempts === 1);
  await erase('/transactions/t9');
  clock.advance(HOUR_MS);
  await until(pending, (deliveries) => deliveries.length === 0);
  const [done] = await sql`select state, attempts from delivery_done where event_id = ${id}`;
  assert.deepEqual({ ...done }, { state: 'failed', attempts: 1 });
  assert.equal(receiver.got.filter((got) => got.path === path).length, 1);
});

test('a worker of another process does not send what it has in memory', async (t) => {
  const engine = await startEngine({ sql: storesOf(sql), ends: t });
  await engine.addWebhook(`${receiver.url}/memory`);
  let answers = 0;
  // The first answer asks for a pause, so that the later delivery waits in memory.
  receiver.answer((_got, response) => {
    answers += 1;
    if (answers === 1) response.writeHead(429, { 'retry-after': '600' }).end();
    else response.writeHead(204).end();
  });
  await app.stop();
  const worker = await engine.startWorker();
  const leases = () => sql`select from shard_lease where owner is null`;
  await until(leases, (rows) => rows.length === 0);
  const events = await engine.publish([1, 2], worker);
  const ids = events.map(({ id }) => id);
  const pending = () => sql<{ attempts: number }[]>`select attempts from delivery where event_id = any (${ids})`;
  await until(pending, (deliveries) => deliveries.some(({ attempts }) => attempts === 1));
  const sent = () =>
    receiver.got.filter(({ path }) => path === '/memory').map(({ body }) => (JSON.parse(String(body)) as Json)['id']);
  const [first] = sent();
  const waiting = first === 1 ? '2' : '1';
  const key = { shard: engine.storeId % 256, storeId: engine.storeId, type: 'transaction' as const, id: waiting };
  await eraseResource({ sql: storesOf(sql), caches }, key, { unmodified: () => {}, now: engine.clock.now() });
  // The connection that announces this delivery has announced the erasure before.
  const otherStoreId = await engine.addStore();
  await engine.addWebhook(`${receiver.url}/later`, { storeId: otherStoreId });
  await engine.publish([3], undefined, otherStoreId);
  await until(
    async () => receiver.got.filter(({ path }) => path === '/later'),
    (arrived) => arrived.length === 1,
  );
  engine.clock.advance(HOUR_MS);
  await until(pending, (deliveries) => deliveries.length === 0);
  assert.deepEqual(sent(), [first, first]);
});
