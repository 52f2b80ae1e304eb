/** An erasure covers everything that belongs to the resource: its steps, any number of events, and concurrent publishes. */
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

const app = await startTestApp();
const { api, sql, clock, storeId, platformToken: token } = app;
const shard = shardOf(storeId);
const at = `/stores/${storeId}`;
const BATCH = 2_000;

type Json = Record<string, unknown>;

async function publish(...events: [event: string, resource: Json][]): Promise<Json> {
  const body = events.map(([event, resource]) => ({ event, resource }));
  const answer = await api('POST', `${at}/events`, { token, body: body.length === 1 ? body[0] : body });
  assert.ok(answer.ok, await answer.clone().text());
  return (await answer.json()) as Json;
}
const erase = async (path: string): Promise<void> =>
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

test('the steps of an erased subscription are erased with it, and those of another stay', async () => {
  await publish(version('s1', '1m'), version('s2', '1m'), version('s1', '2m'));
  await publish(version('s1', '3m'));
  await publish(version('s2', '2m'), version('s1', '4m'), version('s1', '5m'));
  const [steps, others] = [await stepsOf('s1'), await stepsOf('s2')];
  assert.deepEqual([steps.length, others.length], [5, 2]);
  // In the middle of the chain: one that was erased by itself, and one whose event's day was dropped.
  await erase(`/subscription_events/${steps[1]}`);
  await sql`delete from event where shard = ${shard} and id = ${Number(steps[2])}`;
  await erase('/subscriptions/s1');
  assert.deepEqual(await stepsOf('s1'), []);
  assert.deepEqual([...(await eventsWith('bob@s1.'))], []);
  for (const id of steps) assert.equal((await api('GET', `${at}/subscription_events/${id}`)).status, 404);
  assert.equal((await api('GET', `${at}/events/${steps[0]}/payload`)).status, 404);
  assert.deepEqual(await stepsOf('s2'), others);
  assert.equal((await api('GET', `${at}/events/${others[0]}/payload`)).status, 200);
});

test('a version of an erased subscription that is published again is erased with the next erasure', async () => {
  await publish(version('s3', '1m'));
  await erase('/subscriptions/s3');
  await publish(version('s3', '1m'), version('s3', '2m'));
  assert.equal((await stepsOf('s3')).length, 2);
  await erase('/subscriptions/s3');
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
  for (let n = 0; n < 3; n += 1) await publish(['transaction/modified', { id: 'raced' }]);
  let racing: Promise<Json> | undefined;
  const waiting = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const announce = async () => {
    racing = publish(['transaction/modified', { id: 'raced' }], ['transaction/modified', { id: 'beside' }]);
    await until(waiting, (rows) => rows.length === 1);
  };
  await eraseHere('raced', { ...caches, announce });
  const { _embedded } = (await racing) as { _embedded: { 'svc:events': { resource_version: number }[] } };
  assert.deepEqual(
    _embedded['svc:events'].map((event) => event.resource_version),
    [4, 1],
  );
});
