import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool } from '#db/pool.ts';
import { dailyIdOf, dayOf, idOf, shardOf } from '#core/ids.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { overviewDocument } from './health-document.ts';
import { PERIODS, readHealths, type Period } from './figures.ts';
import { listHealths } from './health-sql.ts';

const WEBHOOKS = 100;
const now = new Date('2026-07-01T10:20:00Z');
const database = await testDatabase();
let statements = 0;
const onQuery = (): void => void (statements += 1);
const sql = openPool(database.address, { connections: 1, applicationName: 'test-health', onQuery });
await maintainPartitions(sql, { now, retentionDays: 30, daysAhead: 1 });

let next = 1_000_000;

async function addStore() {
  const storeId = (next += 1);
  const shard = shardOf(storeId);
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shard}, ${storeId}, 'Store', 'store.example.com', '', 'Asia/Kolkata', ${now}, ${now})`;
  return { shard, storeId };
}
type Store = Awaited<ReturnType<typeof addStore>>;

const day = dayOf(now);
const idsOf = (shard: number, count: number) => Array.from({ length: count }, () => dailyIdOf(day, (next += 1), shard));

/** Webhooks with one delivered and one refused delivery in each of that many hours. */
async function addWebhooks({ shard, storeId }: Store, count: number): Promise<number[]> {
  const ids = Array.from({ length: count }, () => idOf((next += 1), shard));
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, events, is_active, headers, retry_profile,
      date_created, date_modified)
    select ${shard}, id, ${storeId}, 'hook ' || id, 'partner_automation', '2', '{}', true, '{}', 'hour', ${now}, ${now}
    from unnest(${ids}::bigint[]) as id`;
  await sql`
    insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
    select ${shard}, id, date_trunc('hour', ${now}::timestamptz) - make_interval(hours => ago), outcome, 10,
      array[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    from unnest(${ids}::bigint[]) as id, generate_series(0, 30) as ago, unnest(array['delivered', 'refused']) as outcome`;
  return ids;
}

const addEvents = (shard: number, storeId: number, ids: readonly number[]) => sql`
  insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
    date_created, body)
  select ${shard}, id, ${storeId}, 'transaction', 'T', 'created', 1, 1, 'UTC', '',
    ${now}::timestamptz - make_interval(mins => ${ids.length}::int - n::int), '{}'
  from unnest(${ids as number[]}::bigint[]) with ordinality as e (id, n)`;

const addPending = ({ shard, storeId }: Store, webhook: number | undefined, ids: readonly number[], epoch = 0) => sql`
  insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
  select ${shard}, id, ${storeId}, ${webhook ?? 0}, ${epoch}, id, ${now} from unnest(${ids as number[]}::bigint[]) as id`;

/** `among`: how many pending deliveries are counted. */
async function read(store: Store, among = 10, period: Period = '24h') {
  const rows = await listHealths(sql, store, WEBHOOKS, null);
  return readHealths(sql, store.shard, rows, { now, pendingLimit: among, period });
}

async function countedOf(act: () => Promise<unknown>): Promise<number> {
  statements = 0;
  await act();
  return statements;
}

test('the overview of a hundred webhooks takes the statements of one', async () => {
  const [small, large] = [await addStore(), await addStore()];
  await addWebhooks(small, 1);
  await addWebhooks(large, WEBHOOKS);
  const [ofOne, ofAll] = [await countedOf(() => read(small)), await countedOf(() => read(large))];
  assert.equal(ofAll, 6);
  assert.equal(ofOne, ofAll);
  const { embedded, properties } = overviewDocument(await read(large), large, { baseUrl: '', now });
  assert.equal(embedded[0]?.documents.length, WEBHOOKS);
  const attempts = properties.find(({ name }) => name === 'attempts');
  assert.equal(attempts?.value, WEBHOOKS * 24 * 2 * 10, 'the hours before the last 24 are not counted');
});

test('a longer period is added up by the database in spans that end with the current hour', async () => {
  const store = await addStore();
  const [webhook] = await addWebhooks(store, 1);
  await sql`
    insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
    select ${store.shard}, ${webhook ?? 0}, date_trunc('hour', ${now}::timestamptz) - make_interval(hours => ago), 'gone', 1,
      array[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    from unnest(array[167, 168, 719, 720]) as ago`;
  const total = async (period: Period) => (await read(store, 10, period)).total;
  const [recent, week, month] = [await total('24h'), await total('7d'), await total('30d')];
  // 31 hours have ten attempts of each of two outcomes.
  assert.deepEqual([recent.attempts, week.attempts, month.attempts], [24 * 20, 31 * 20 + 1, 31 * 20 + 3]);
  assert.deepEqual(
    [week, month].map(({ spans, delivered, answered }) => [spans.length, delivered, answered[0], answered.at(-1)]),
    [
      [28, 310, 620, 1],
      [30, 310, 620, 3],
    ],
  );
  assert.deepEqual([week.spans[0]?.attempts, week.spans.at(-1)?.attempts], [1, 6 * 20]);
  assert.equal(week.spans.at(-1)?.at.toISOString(), '2026-07-01T05:00:00.000Z');
  assert.deepEqual([month.spans[0]?.attempts, month.spans.at(-1)?.attempts], [1, 24 * 20]);
  const lastHours = week.failures.map(({ outcome, hour }) => [outcome, hour.toISOString()]);
  assert.deepEqual(lastHours, [
    ['refused', '2026-07-01T10:00:00.000Z'],
    ['gone', '2026-06-24T11:00:00.000Z'],
  ]);
  assert.deepEqual(Object.keys(PERIODS), ['24h', '7d', '30d']);
});

test('a failing webhook has the time of its first failure, and the next attempt waits for pause and probe', async () => {
  const store = await addStore();
  const [failing, disabled, paused] = await addWebhooks(store, 3);
  const ids = idsOf(store.shard, 3);
  await addEvents(store.shard, store.storeId, ids);
  for (const [n, webhook] of [failing, paused].entries()) await addPending(store, webhook, ids.slice(n, n + 1));
  const [since, later] = [new Date('2026-07-01T08:00:00Z'), new Date('2026-07-01T11:00:00Z')];
  await sql`
    update webhook set events = '{transaction/created}', event_resource = 'transaction', url = 'https://a.example'
    where shard = ${store.shard} and store_id = ${store.storeId}`;
  await sql`update webhook set is_active = false, epoch = 1 where shard = ${store.shard} and id = ${disabled ?? 0}`;
  const states = [
    { webhook: failing, count: 3, first: since, pausedUntil: null, isPendingDisable: false },
    { webhook: disabled, count: 12, first: since, pausedUntil: null, isPendingDisable: true },
    { webhook: paused, count: 0, first: null, pausedUntil: later, isPendingDisable: false },
  ];
  for (const { webhook, count, first, pausedUntil, isPendingDisable } of states)
    await sql`
      insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until, is_condemned)
      values (${store.shard}, ${webhook ?? 0}, 0, ${count}, ${first}, ${pausedUntil}, ${isPendingDisable})`;
  const document = overviewDocument(await read(store), store, { baseUrl: '', now });
  const of = (id: number | undefined) => {
    const found = document.embedded[0]?.documents.find(({ properties }) => properties[0]?.value === id);
    const valueOf = (name: string) => found?.properties.find((property) => property.name === name)?.value;
    return [valueOf('state'), valueOf('failing_since'), valueOf('date_next')];
  };
  // The store is in Kolkata.
  assert.deepEqual(of(failing), ['failing', '2026-07-01T13:30:00+0530', '2026-07-01T15:50:00+0530']);
  assert.deepEqual(of(disabled), ['inactive', '2026-07-01T13:30:00+0530', null]);
  assert.deepEqual(of(paused), ['paused', null, '2026-07-01T16:30:00+0530']);
});

test('pending deliveries are counted up to a limit, without those of older epochs, and the oldest is returned', async () => {
  const store = await addStore();
  const [many, few, none] = await addWebhooks(store, 3);
  const [ofMany, ofFew, dead] = [idsOf(store.shard, 30), idsOf(store.shard, 3), idsOf(store.shard, 2)];
  await addEvents(store.shard, store.storeId, [...ofFew, ...ofMany, ...dead]);
  await addPending(store, many, ofMany);
  await addPending(store, few, ofFew, 1);
  await addPending(store, few, dead, 0);
  await sql`update webhook set epoch = 1 where shard = ${store.shard} and id = ${few ?? 0}`;
  const { healths } = await read(store);
  assert.deepEqual(
    healths.map(({ row, pending }) => [row.id, pending.pending, pending.oldestAt?.toISOString()]),
    [
      [many, 10, '2026-07-01T09:49:00.000Z'],
      [few, 3, '2026-07-01T09:46:00.000Z'],
      [none, 0, undefined],
    ],
  );
});

test('the last attempt of each kind of failure is returned with its response code', async () => {
  const store = await addStore();
  const [webhook] = await addWebhooks(store, 1);
  const ids = idsOf(store.shard, 3);
  for (const [n, [code, minute]] of [[500, 1] as const, [503, 9] as const, [200, 15] as const].entries())
    await sql`
      insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome,
        response_code)
      values (${store.shard}, ${ids[n] ?? 0}, 1, ${store.storeId}, ${webhook ?? 0}, ${ids[n] ?? 0},
        ${new Date(Date.UTC(2026, 6, 1, 10, minute))}, 5, ${code === 200 ? 'delivered' : 'refused'}, ${code})`;
  const { healths } = await read(store);
  const failures = [...(healths[0]?.last.values() ?? [])].map(({ outcome, responseCode, at }) => {
    return { outcome, responseCode, at: at.toISOString() };
  });
  assert.deepEqual(failures, [{ outcome: 'refused', responseCode: 503, at: '2026-07-01T10:09:00.000Z' }]);
  await sql.end();
});
