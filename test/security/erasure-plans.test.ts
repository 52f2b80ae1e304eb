/** Deleting the rows of an erased store scans no large table, however many rows that store has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool } from '#db/pool.ts';
import { createErasedStorePurges, createEventPurges, TABLES_OF_STORES } from '#events/event-purges-sql.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { createStorePurges } from '#stores/stores-sql.ts';
import { createWebhookPurges, WEBHOOKS_OF_STORES } from '#webhooks/webhook-purges-sql.ts';
import { testDatabase } from '../setup/database.ts';

const database = await testDatabase();
/** One connection, so that the statistics are those of the statement just sent. */
const sql = openPool(database.address, { connections: 1, applicationName: 'test-plans' });
// A scan of a whole table is counted, and one of a whole index is not.
await sql`select set_config('enable_seqscan', 'on', false), set_config('plan_cache_mode', 'auto', false)`;

const NOW = new Date('2026-07-01T10:00:00.000Z');
const LATER = new Date('2026-07-01T12:00:00.000Z');
const NEXT_DAY = new Date('2026-07-02T10:00:00.001Z');
const SHARD = 7;
const [ERASED, LIVING, EMPTY] = [1_000, 2_000, 3_000].map((n) => n * 256 + SHARD) as [number, number, number];
const ROWS = 5_000;
/** Beyond the five executions after which PostgreSQL may use a generic plan. */
const EXECUTIONS = 7;

async function fill(): Promise<void> {
  await maintainPartitions(sql, { now: NOW, retentionDays: 30, daysAhead: 3 });
  const first = dailyIdOf(dayOf(NOW), 0, SHARD);
  for (const [at, store] of [ERASED, LIVING].entries()) {
    await sql`
      insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
      select ${SHARD}, ${store}, 'customer', n::text, 1, ${NOW}, 1, 'UTC', 'x', '{}'
      from generate_series(1, ${ROWS}::int) as n`;
    await sql`
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      select ${SHARD}, ${first}::bigint + (n * 2 + ${at}::int) * 256, ${store}, 'customer', n::text, 'created', 1, 1, 'UTC',
        'x', ${NOW}, '{}'
      from generate_series(1, ${ROWS}::int) as n`;
    await sql`
      insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
      select ${SHARD}, ${store}, n::text, sha256(n::text::bytea), '{1}', ${NOW} from generate_series(1, ${ROWS}::int) as n`;
    await sql`
      insert into erased_resource (shard, store_id, type, id, version)
      select ${SHARD}, ${store}, 'customer', n::text, 1 from generate_series(1, ${ROWS}::int) as n`;
    await sql`
      insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
      select ${SHARD}, ${store}, n::text, '2026-06-01', 'EUR', 1, true from generate_series(1, ${ROWS}::int) as n`;
    await sql`
      insert into revenue_day (shard, store_id, day, resource_id)
      select ${SHARD}, ${store}, '2010-01-01'::date + n, '1' from generate_series(1, ${ROWS}::int) as n`;
  }
  await addDeclared(first);
  // One a store, and stores are many.
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    select ${SHARD}, ${LIVING}::bigint + (n + 2000) * 256, '2026-07-01', '2026-07-01', ${NOW}
    from generate_series(1, ${ROWS}::int) as n`;
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    values (${SHARD}, ${ERASED}, '2026-07-01', '2026-07-01', ${NOW})`;
  await sql`
    insert into erased_store (shard, id, date_erased)
    values (${SHARD}, ${ERASED}, ${NOW}), (${SHARD}, ${EMPTY}, ${NOW})`;
  await sql`analyze`;
}

/** More than the batches below delete, so that the events of the erasure are still kept when events are deleted. */
const DECLARED = 400;

/** Adds webhooks of apps to both stores, events of their erasure, and pending deliveries of the store that is left. */
async function addDeclared(firstEventId: number): Promise<void> {
  for (const [at, [store, rows]] of [[ERASED, DECLARED] as const, [LIVING, ROWS] as const].entries()) {
    await sql`
      insert into webhook (shard, id, store_id, client, name, format, version, url, event_resource, events, is_active, headers,
        retry_profile, date_created, date_modified, is_for_app)
      select ${SHARD}, (n * 2 + ${at}::int) * 256::bigint + ${SHARD}::int, ${store}, n, 'App', 'json', '2',
        'https://app.example.com/', 'app', '{app/store_erased}', true, '{}', 'long', ${NOW}, ${NOW}, true
      from generate_series(1, ${rows}::int) as n`;
    await sql`
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      select ${SHARD}, ${firstEventId}::bigint + (n * 2 + ${at}::int + 4 * ${ROWS}::int) * 256, ${store}, 'app', n::text, 'store_erased', 1, 1,
        'UTC', 'x', ${NOW}, '{}'
      from generate_series(1, ${DECLARED}::int) as n`;
  }
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select shard, id, store_id, id, 0, 1, ${NOW} from webhook where store_id = ${LIVING}`;
}

/** An empty partition may be scanned. */
const TABLES = [
  'resource',
  `event_d${dayOf(NOW)}`,
  'publish_key',
  'erased_resource',
  'subscription_term',
  'revenue_day',
  'revenue_book',
  'webhook',
  'delivery',
];

/** Returns how often each table was scanned since the database was created. */
async function wholeReads(): Promise<Record<string, number>> {
  await sql`select pg_stat_force_next_flush()`;
  const rows = await sql<{ name: string; reads: number }[]>`
    select relname::text as name, seq_scan as reads from pg_stat_user_tables where relname = any(${TABLES})`;
  return Object.fromEntries(rows.map(({ name, reads }) => [name, reads]));
}

test('every batch uses an index, and deletes rows of the erased store only', async () => {
  await fill();
  const before = await wholeReads();
  assert.deepEqual(Object.keys(before).toSorted(), TABLES.toSorted());
  const [keys] = createEventPurges({ sql, retentionDays: 30 });
  const purges = [
    ...createWebhookPurges({ sql, retentionDays: 30 }).filter(({ name }) => name === 'webhooks_of_erased_stores'),
    ...createErasedStorePurges({ sql }),
    ...createStorePurges({ sql, tables: [...TABLES_OF_STORES, WEBHOOKS_OF_STORES] }),
  ];
  for (const { name, purge } of purges) {
    let deleted = 0;
    for (let execution = 0; execution < EXECUTIONS; execution += 1) deleted += await purge(50, LATER);
    assert.ok(deleted > 0, `${name}: something is due`);
    assert.deepEqual(await wholeReads(), before, name);
  }
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    assert.equal(await keys?.purge(50, LATER), 0, 'keys are kept for a day');
    assert.equal(await keys?.purge(50, NEXT_DAY), 50);
  }
  assert.deepEqual(await wholeReads(), before, 'keys that are free again');
  for (const { purge } of purges) while ((await purge(1_000, LATER)) > 0);
  const left = await sql`
    select (select count(*) from resource) as resources, (select count(*) from event) as events,
      (select count(*) from erased_resource) as erased, (select count(*) from subscription_term) as terms,
      (select count(*) from revenue_day) as days, (select count(*) from revenue_book) as books,
      (select count(*) from publish_key where store_id = ${ERASED}) as keys, (select count(*) from webhook) as webhooks,
      (select count(*) from erased_store) as stores`;
  const expected = {
    resources: ROWS,
    events: ROWS + DECLARED,
    webhooks: ROWS,
    erased: ROWS,
    terms: ROWS,
    days: ROWS,
    books: ROWS,
  };
  assert.deepEqual({ ...left[0] }, { ...expected, keys: 0, stores: 0 });
  await sql.end();
});
