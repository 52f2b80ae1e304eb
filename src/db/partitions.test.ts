import assert from 'node:assert/strict';
import { test, type TestContext, mock } from 'node:test';
import { dailyIdOf, dayOf, startOfDay } from '#core/ids.ts';
import { systemClock } from '#core/clock.ts';
import { createLog } from '#core/log.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { nextEventBlock, maintainPartitions, createMissing, keepPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';
import { NEVER_QUIET } from '../../test/setup/clock.ts';

const TODAY = dayOf(new Date());
const at = (day: number): Date => new Date(startOfDay(day).getTime() + 3_600_000);
const maintain = (sql: Sql, day: number, retentionDays = 30) =>
  maintainPartitions(sql, { now: at(day), retentionDays, daysAhead: 3 });
/** Weeks ago: nothing is dropped before the database's own clock has passed it. */
const BASE = TODAY - 40;
/** With the days around `BASE`, and an event of today. */
async function databaseOfBase(t: TestContext): Promise<Sql> {
  const { sql } = await testDatabase(t);
  await maintain(sql, TODAY);
  await nextEventBlock(sql, TODAY);
  await maintain(sql, BASE, 1);
  return sql;
}

async function attached(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits
    where inhparent in ('event'::regclass, 'delivery_done'::regclass, 'attempt'::regclass) order by 1`;
  return rows.map(({ name }) => name);
}

const insertDone = (sql: Sql, id: number) => sql`
  insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
  values (7, ${id}, 1, 1, 1, 'successful', 1, now())`;

test('partitions reach from yesterday to three days ahead, and a second run does nothing', async (t) => {
  const { sql } = await testDatabase(t);
  const days = [9_000, 9_001, 9_002, 9_003, 9_004];
  const expected = ['event', 'delivery_done', 'attempt'].flatMap((parent) => days.map((day) => `${parent}_d${day}`));
  const { created } = await maintain(sql, 9_001, 10_000);
  assert.deepEqual(created, expected);
  assert.deepEqual(await maintain(sql, 9_001, 10_000), { created: [], dropped: [] });
  assert.deepEqual(
    (await attached(sql)).filter((name) => /_d90/.test(name)),
    expected.toSorted(),
  );
});

test('the first and the last id of a day go into its partition, and the keys are kept', async (t) => {
  const { sql } = await testDatabase(t);
  await insertDone(sql, dailyIdOf(TODAY, 0, 0));
  await insertDone(sql, dailyIdOf(TODAY, 2 ** 30 - 1, 255));
  const [row] = await sql<{ tables: string[] }[]>`
    select array_agg(distinct tableoid::regclass::text) as tables from delivery_done`;
  assert.deepEqual(row?.tables, [`delivery_done_d${TODAY}`]);
  await assert.rejects(insertDone(sql, dailyIdOf(TODAY, 0, 0)), { code: '23505' });
  await assert.rejects(insertDone(sql, dailyIdOf(TODAY + 10, 0, 0)), { code: '23514' });
});

test('partitions older than the retention are dropped, and the last retained day stays', async (t) => {
  const sql = await databaseOfBase(t);
  await insertDone(sql, dailyIdOf(BASE + 1, 0, 0));
  const { dropped } = await maintain(sql, BASE + 3, 2);
  assert.deepEqual(
    dropped,
    ['attempt', 'delivery_done', 'event'].flatMap((parent) => [-1, 0].map((n) => `${parent}_d${BASE + n}`)),
  );
  const [row] = await sql<{ n: number }[]>`select count(*) as n from delivery_done`;
  assert.equal(row?.n, 1);
});

test('days into which pending deliveries end stay until these have ended', async (t) => {
  const sql = await databaseOfBase(t);
  const id = dailyIdOf(BASE, 5, 7);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (7, ${id}, 1, 1, 0, ${id}, now())`;
  const names = (day: number) => ['attempt', 'delivery_done', 'event'].map((parent) => `${parent}_d${day}`);
  assert.deepEqual((await maintain(sql, BASE + 9, 2)).dropped, names(BASE - 1));
  await sql`delete from delivery`;
  const { dropped } = await maintain(sql, BASE + 9, 2);
  assert.ok(names(BASE).every((name) => dropped.includes(name)));
});

test('a detach that a long transaction interrupted is finished by the next run, with the days after it', async (t) => {
  const sql = await databaseOfBase(t);
  const reader = await sql.reserve();
  await reader`begin`;
  await reader`select from event`;
  const interrupted = await maintain(sql, BASE + 2, 1);
  assert.deepEqual(
    interrupted.dropped,
    ['attempt', 'delivery_done'].flatMap((parent) => [-1, 0].map((n) => `${parent}_d${BASE + n}`)),
  );
  await reader`commit`;
  reader.release();
  assert.deepEqual((await maintain(sql, BASE + 2, 1)).dropped, [`event_d${BASE - 1}`, `event_d${BASE}`]);
});

test('concurrent runs do the work once', async (t) => {
  const sql = await databaseOfBase(t);
  const results = await Promise.all(Array.from({ length: 4 }, () => maintain(sql, BASE + 20, 5)));
  assert.deepEqual(
    results.map(({ created }) => created.length).sort((a, b) => a - b),
    [0, 0, 0, 15],
  );
  assert.deepEqual(
    results.map(({ dropped }) => dropped.length).sort((a, b) => a - b),
    [0, 0, 0, 15],
  );
});

test('a clock that is weeks ahead drops nothing, also after events of its days are written', async (t) => {
  const { sql } = await testDatabase(t);
  await maintain(sql, TODAY);
  await nextEventBlock(sql, TODAY);
  const before = await attached(sql);
  assert.deepEqual((await maintain(sql, TODAY + 41)).dropped, []);
  await nextEventBlock(sql, TODAY + 41);
  assert.deepEqual((await maintain(sql, TODAY + 41)).dropped, []);
  const after = new Set(await attached(sql));
  assert.ok(before.every((name) => after.has(name)));
});

test('days are kept while the newest event is not older than the retention after them', async (t) => {
  const { sql } = await testDatabase(t);
  await maintain(sql, BASE, 1);
  assert.deepEqual((await maintain(sql, TODAY, 2)).dropped, [], 'no event confirms that the clocks are right');
  await nextEventBlock(sql, BASE + 3);
  const { dropped } = await maintain(sql, TODAY, 2);
  assert.deepEqual(new Set(dropped.map((name) => Number(name.split('_d').at(-1)))), new Set([BASE - 1, BASE]));
});

const [SHARD, STORE] = [7, 263];
const MINUTE_MS = 60_000;

test('a minute after the start the rows of ended days are counted', async () => {
  const { sql } = await testDatabase();
  const day = dayOf(new Date()) - 3;
  await createMissing(sql, day, 6);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url, date_created, body)
    values (${SHARD}, ${dailyIdOf(day, 1, SHARD)}, ${STORE}, 'transaction', '1', 'created', 1, 1, 'UTC', '', now(), '{}')`;
  mock.timers.enable({ apis: ['setTimeout'] });
  const keeper = await keepPartitions({
    direct: sql,
    clock: systemClock,
    pace: NEVER_QUIET,
    log: createLog('silent'),
    retentionDays: 30,
  });
  mock.timers.tick(MINUTE_MS);
  // Only the timer of the keeper had to pass; statements and `until` need the real ones.
  mock.timers.reset();
  const counted = () =>
    sql<{ list: string; rows: number }[]>`select list, rows from day_count where owner_id = ${STORE}`;
  assert.deepEqual([...(await until(counted, ({ length }) => length > 0))], [{ list: 'event', rows: 1 }]);
  await keeper.stop();
  await sql.end();
});
