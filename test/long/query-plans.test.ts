/**
 * The statements of publishing and delivering, after statistics that were collected at the wrong moment: of a table that was
 * empty, nearly empty, or empty with many free pages. Whatever PostgreSQL assumes about a table, a statement reads as many of its
 * pages for a batch as before, however many rows came since.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { lockPreviousVersions, findKeys, publishBatch, type Batch } from '#events/publish/publish-sql.ts';
import { rowOf, inLockOrder, toBatchRows } from '#events/publish/rows.ts';
import { derivingStores } from '#events/revenue-sql.ts';
import {
  endOldEpochs,
  countFaults,
  discoverLanes,
  fetchLanes,
  listChanged,
  loadArrivals,
} from '#delivery/queue/queue-sql.ts';
import { loadEvents, loadTargets } from '#delivery/delivery-sql.ts';
import type { Entry } from '#delivery/policy/entry.ts';
import { recordBatch, insertMarkers } from '#delivery/record/record-sql.ts';
import { attemptsAt } from '#webhooks/history/history-sql.ts';
import { findWebhook } from '#webhooks/webhook-sql.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { testDatabase } from '../setup/database.ts';

const { address } = await testDatabase();
/** One connection, so that plans and statistics are those of the statement just sent; and as behind a pooler. */
const openOne = (isShared: boolean) => openPool(address, { connections: 1, applicationName: 'test-plans', isShared });
let sql = openOne(false);

const NOW = new Date();
const DAY = dayOf(NOW);
const SHARD = 7;
const WORKER = 77;
const ROWS = 10_000;
const BATCH = 20;
/** Beyond the five executions after which PostgreSQL keeps a generic plan. */
const EXECUTIONS = 7;
/** Of tables and indexes: a publish reads 41 for a row. A whole table has 150 and more. */
const PAGES_PER_ROW_MAX = 60;

/** The tables that are emptied again and again, and those that only grow. */
const EMPTIED = ['delivery', 'delivery_suspect', 'publish_key'];
const GROWING = ['attempt', 'delivery_done', 'event', 'resource', 'store', 'webhook', 'webhook_state'];

const idAt = (n: number): number => dailyIdOf(DAY, n, SHARD);
const ownIdAt = (n: number): number => n * 256 + SHARD;
const series = (from: number, count: number) => sql`generate_series(${from}::int, ${from + count - 1}::int) as n`;
const daily = () => sql`${idAt(0)}::bigint + n * 256`;
/** Ended deliveries, with other ids than the pending ones that are recorded here. */
const ENDED = 5_000_000;
const ended = () => sql`${idAt(ENDED)}::bigint + n * 256`;
const own = () => sql`n::bigint * 256 + ${SHARD}`;

/** Row `n` of every table belongs to store, webhook, event, resource and delivery `n`. */
async function fill(from: number, count: number): Promise<void> {
  const rows = () => series(from, count);
  await sql`insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    select ${SHARD}, ${own()}, 'S', 's' || n || '.example.com', 's@example.com', 'UTC', ${NOW}, ${NOW} from ${rows()}`;
  await sql`insert into webhook (shard, id, store_id, name, format, version, url, event_resource, events, is_active, headers, retry_profile,
      date_created, date_modified)
    select ${SHARD}, ${own()}, ${own()}, 'W', 'partner_automation', '2', 'https://a.example/', 'customer', array['customer/created'], true, '{}', 'hour',
      ${NOW}, ${NOW} from ${rows()}`;
  await sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures)
    select ${SHARD}, ${own()}, 0, 0 from ${rows()}`;
  await sql`insert into resource (shard, store_id, type, id, version, modified_at, event_id, head_event_id, time_zone, base_url, body)
    select ${SHARD}, ${own()}, 'customer', n::text, 1, ${NOW}, ${daily()}, ${daily()}, 'UTC', 'x', '{}' from ${rows()}`;
  await sql`insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select ${SHARD}, ${daily()}, ${own()}, 'customer', n::text, 'created', 1, 1, 'UTC', 'x', ${NOW}, '{}' from ${rows()}`;
  await sql`insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select ${SHARD}, ${daily()}, ${own()}, ${own()}, 0, ${daily()}, ${NOW} from ${rows()}`;
  // All of one webhook, with events of its store: a statement that reads its whole history is seen.
  await sql`insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select ${SHARD}, ${ended()}, ${ownIdAt(1)}, 'customer', 'x' || n, 'created', 1, 1, 'UTC', 'x', ${NOW}, '{}' from ${rows()}`;
  await sql`insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started, duration_ms, outcome)
    select ${SHARD}, ${ended()}, ${ownIdAt(1)}, ${ownIdAt(1)}, ${ended()}, 'successful', 1, ${NOW}, ${NOW}::timestamptz + n * interval '1 ms', 1, 'delivered'
    from ${rows()}`;
  await sql`insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome)
    select ${SHARD}, ${ended()}, 2, ${ownIdAt(1)}, ${ownIdAt(1)}, ${ended()}, ${NOW}::timestamptz + n * interval '1 ms', 1, 'delivered' from ${rows()}`;
  await sql`insert into delivery_suspect (shard, delivery_id, fence) select ${SHARD}, ${daily()}, 1 from ${rows()}`;
  await sql`insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
    select ${SHARD}, ${own()}, n::text, sha256('x'), array[${daily()}], ${NOW} from ${rows()}`;
}

async function empty(names: readonly string[]): Promise<void> {
  for (const name of names) await sql`delete from ${sql(name)}`;
}

/** The rows of a batch that exist: every statement is asked about a batch of its own. */
const taken = { n: 1 };
function take(): number[] {
  const from = taken.n;
  taken.n += BATCH;
  return Array.from({ length: BATCH }, (_, index) => from + index);
}
const shards = (rows: readonly number[]): number[] => rows.map(() => SHARD);
const fences = [{ shard: SHARD, fence: 1 }];
const reply = { code: 200, headers: '', body: '' };

function record(rows: readonly number[], state: 'successful' | null) {
  const entries = rows.map((n): Entry => {
    const ids = { id: idAt(n), storeId: ownIdAt(n), webhookId: ownIdAt(n), eventId: idAt(n) };
    return {
      shard: SHARD,
      fence: 1,
      delivery: { ...ids, epoch: 0, attempts: 0, faults: 0, dueAt: NOW },
      attempt: { startedAt: NOW, durationMs: 1, outcome: { kind: 'delivered', reply }, revision: 1 },
      attempts: 1,
      faults: 0,
      next: state === null ? { dueAt: NOW } : { state },
      webhook: {
        consecutiveFailures: 0,
        firstFailureAt: null,
        pausedUntil: null,
        probeAt: null,
        isPendingDisable: false,
        isWarned: false,
      },
      isWarning: false,
    };
  });
  return recordBatch(sql, WORKER, fences, entries, { keepResponses: false, marked: entries, now: NOW });
}

/** A key of no store: without keys the statement is another one. */
const nowhere = { storeId: SHARD, key: 'none', fingerprint: Buffer.alloc(32), eventIds: '{}' };

let events = 10 * ROWS;
function publish(rows: readonly number[]) {
  const written = rows.map((n, at) => {
    const event = { type: 'customer', action: 'created', resourceId: String(n), modifiedAt: null, body: '{}' } as const;
    return rowOf(event, ownIdAt(n), { id: idAt((events += 1)), at });
  });
  const batch: Batch = {
    rows: toBatchRows(written.toSorted(inLockOrder), NOW),
    filters: { known: [], passed: [] },
    claims: [
      nowhere,
      ...rows.map((n) => ({ ...nowhere, storeId: ownIdAt(n), key: `new-${n}`, eventIds: `{${idAt(n)}}` })),
    ],
    terms: [],
    day: DAY,
    now: NOW,
    baseUrl: 'x',
  };
  return publishBatch(sql, batch);
}

const owner = { shard: SHARD, storeId: ownIdAt(1), id: ownIdAt(1) };

const STATEMENTS: Readonly<Record<string, (rows: readonly number[]) => Promise<readonly unknown[]>>> = {
  'publish, with keys': publish,
  'lock existing rows': (rows) =>
    lockPreviousVersions(
      sql,
      rows.map((n) => ({ storeId: ownIdAt(n), type: 'customer', id: String(n) })),
    ),
  'find keys': (rows) =>
    findKeys(
      sql,
      rows.map((n) => ({ storeId: ownIdAt(n), key: String(n) })),
      new Date(0),
    ),
  'see which stores derive': async (rows) => {
    await derivingStores(sql, rows.map(ownIdAt));
    return rows;
  },
  'read announced events': (rows) => loadArrivals(sql, shards(rows), rows.map(idAt), 1_000),
  'read events': (rows) =>
    loadEvents(
      sql,
      rows.map((n) => ({ storeId: ownIdAt(n), eventId: idAt(n) })),
    ),
  'read webhooks': (rows) => loadTargets(sql, shards(rows), rows.map(ownIdAt)),
  'read each webhook': (rows) =>
    Promise.all(rows.map((n) => findWebhook(sql, { shard: SHARD, id: ownIdAt(n), stores: null, app: null }))),
  'see which webhooks changed': (rows) =>
    listChanged(
      sql,
      SHARD,
      rows.map((n) => ({ webhookId: ownIdAt(n), revision: -1, storeDomain: 'x' })),
    ),
  'discover lanes': (rows) =>
    discoverLanes(
      sql,
      Array.from({ length: 16 }, (_, shard) => ({ shard, after: ownIdAt((rows[0] ?? 0) - 1) })),
      rows.length,
    ),
  'fetch lanes': (rows) =>
    fetchLanes(
      sql,
      shards(rows),
      rows.map(ownIdAt),
      rows.map(() => ({ limit: 2, fromMs: NOW.getTime() - 1_000, startedMs: 0 })),
    ),
  'read the attempts of each delivery': async (rows) => {
    for (const n of rows) {
      const attempts = await attemptsAt(sql, owner, idAt(ENDED + n), 10);
      assert.deepEqual(
        attempts.map(({ resourceId }) => resourceId),
        [`x${n}`, `x${n}`],
      );
    }
    return rows;
  },
  'note before sending': async (rows) => {
    const notes = rows.map((n) => ({ shard: SHARD, deliveryId: idAt(n) }));
    await insertMarkers(sql, WORKER, fences, notes);
    return rows;
  },
  'record ends': async (rows) => {
    assert.deepEqual(await record(rows, 'successful'), [SHARD]);
    return rows;
  },
  'record retries': async (rows) => {
    assert.deepEqual(await record(rows, null), [SHARD]);
    return rows;
  },
  'end deliveries of an older epoch': async (rows) => {
    for (const n of rows) {
      const dead = { webhookId: ownIdAt(n), epoch: 1, from: new Date(NOW.getTime() - 1_000), limit: 10 };
      await endOldEpochs(sql, WORKER, { shard: SHARD, fence: 1 }, dead, NOW);
    }
    return rows;
  },
  'count an hour in which a webhook could not be used': async (rows) => {
    for (const n of rows) {
      const hour = { webhookId: ownIdAt(n), after: null, faults: 120, most: 8_640, limit: 10 };
      assert.equal((await countFaults(sql, WORKER, { shard: SHARD, fence: 1 }, hour, NOW)).seen, 1);
    }
    return rows;
  },
};

/** Returns the pages of these tables and of their indexes that were read so far. */
async function pagesRead(): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [row] = await sql<{ pages: number }[]>`
    select sum(coalesce(heap_blks_read + heap_blks_hit, 0) + coalesce(idx_blks_read + idx_blks_hit, 0))::float8 as pages
    from pg_statio_user_tables where schemaname = 'public'`;
  return row?.pages ?? Number.NaN;
}

/** The statistics at the time of planning: each case creates them, and leaves few rows or none. */
const MOMENTS: Readonly<Record<string, () => Promise<void>>> = {
  'nearly empty': async () => {
    await fill(1, 60);
    await sql`vacuum analyze`;
  },
  'emptied, its pages still there': async () => {
    await fill(1, ROWS);
    await empty(EMPTIED);
    await sql`vacuum (truncate false, analyze)`;
  },
  'emptied and truncated': async () => {
    await fill(1, ROWS);
    await empty(EMPTIED);
    await sql`vacuum analyze`;
  },
};

const WAYS = [
  ['', false],
  [' behind a pooler', true],
] as const;
for (const [where, isShared] of WAYS) {
  test(`no statistics make a statement read more than its batch${where}`, async (t) => {
    sql = openOne(isShared);
    await maintainPartitions(sql, { now: NOW, retentionDays: 30, daysAhead: 3 });
    await sql`update shard_lease set owner = ${WORKER}, fence = 1 where shard = ${SHARD}`;
    // Numbers outside those of `fill`.
    await sql`select setval(${`delivery_n_d${dayOf(NOW)}`}::regclass, ${100 * ROWS}::int)`;
    // Only this statement collects statistics.
    for (const name of EMPTIED) await sql`alter table ${sql(name)} set (autovacuum_enabled = false)`;
    const tooMany: string[] = [];
    for (const [moment, make] of Object.entries(MOMENTS)) {
      await empty([...EMPTIED, ...GROWING]);
      await sql`vacuum`;
      await sql`discard plans`;
      await make();
      for (const run of Object.values(STATEMENTS))
        for (let execution = 0; execution < EXECUTIONS; execution += 1) await run([]);
      await fill(2 * ROWS, ROWS);
      taken.n = 2 * ROWS;
      for (const [what, run] of Object.entries(STATEMENTS)) {
        const rows = take();
        const before = await pagesRead();
        const found = await run(rows);
        const perRow = Math.round(((await pagesRead()) - before) / BATCH);
        assert.equal(found.length, BATCH, what);
        t.diagnostic(`${moment}: ${what}: ${perRow} pages a row`);
        if (perRow > PAGES_PER_ROW_MAX) tooMany.push(`${moment}: ${what}: ${perRow}`);
      }
    }
    await sql.end();
    assert.deepEqual(tooMany, []);
  });
}
