/**
 * Partitions are created and dropped while events are published and delivered and a back-up is taken: no request fails or waits for
 * a lock, and the back-up is complete. On PostgreSQL 15 and its own pg_dump, as packaged by Debian.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { migrate } from '#db/migrate.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { dailyIdOf, dayOf, startOfDay } from '#core/ids.ts';
import { startDebianServer, type DebianServer } from '../setup/debian-server.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const ends = cleanups();
const MIGRATIONS = join(import.meta.dirname, '../../migrations');
const run = promisify(execFile);
const TODAY = dayOf(new Date());
/** The first day of the checked range. */
const FIRST = TODAY - 40;
const RETENTION_DAYS = 2;
const ROWS_A_DAY = 1_000;
const PUBLISHERS = 3;
const EVENTS_AT_ONCE = 5;
const PARENTS = ['event', 'delivery_done', 'attempt'];

const maintain = (sql: Sql, day: number) =>
  maintainPartitions(sql, { now: startOfDay(day), retentionDays: RETENTION_DAYS, daysAhead: 3 });

/** Writes a row to each table on that day. */
async function fillDay(sql: Sql, day: number): Promise<void> {
  const id = sql`${dailyIdOf(day, 0, 7)}::bigint + n * 256`;
  const rows = sql`generate_series(1, ${ROWS_A_DAY}::int) as n`;
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select 7, ${id}, 7, 'customer', n::text, 'created', 1, 1, 'UTC', 'x', now(), repeat('x', 300) from ${rows}`;
  await sql`
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
    select 7, ${id}, 7, 7, ${id}, 'successful', 1, now() from ${rows}`;
  await sql`
    insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome)
    select 7, ${id}, 1, 7, 7, ${id}, now(), 1, 'delivered' from ${rows}`;
}

/** Publishes until it is stopped, and counts the accepted events. */
function publishOn(engine: Engine, worker: Awaited<ReturnType<Engine['startWorker']>>) {
  const over = new AbortController();
  let next = 0;
  let accepted = 0;
  const publisher = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const ids = Array.from({ length: EVENTS_AT_ONCE }, () => (next += 1));
      const published = await engine.publish(ids, worker);
      accepted += published.length;
      // A few at a time, and not the maximum of the machine: the receiver has to keep up.
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  };
  const publishing = Promise.all(Array.from({ length: PUBLISHERS }, publisher));
  return {
    accepted: () => accepted,
    stop: async () => {
      over.abort();
      await publishing;
      return accepted;
    },
  };
}

/** Starts a dump that stands still, with its locks and its snapshot, until it is released. */
function startDump(server: DebianServer, database: string, file: string) {
  const dump = spawn(...server.client('pg_dump', database, []));
  let complaints = '';
  dump.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => dump.once('close', resolve));
  return {
    finish: async () => {
      await pipeline(dump.stdout, createWriteStream(file));
      assert.equal(await ended, 0, complaints);
      return complaints;
    },
  };
}

async function countsOf(sql: Sql): Promise<Record<string, number>> {
  const [row] = await sql<Record<string, number>[]>`
    select (select count(*) from event where store_id = 7) as old, (select count(*) from event where store_id <> 7) as new,
      (select count(*) from resource) as resources`;
  return { ...row };
}

async function partitionsOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits
    where inhparent::regclass::text = any(${PARENTS}) and not inhdetachpending order by 1`;
  return rows.map(({ name }) => name);
}

/** Restores a dump into a database of its own. */
async function restore(server: DebianServer, file: string, name: string): Promise<Sql> {
  const admin = openPool(server.address, { connections: 1, applicationName: 'test-admin' });
  await admin`create database ${admin(name)}`;
  await admin.end();
  await run(...server.client('psql', name, ['-q', '-v', 'ON_ERROR_STOP=1', '-f', file]));
  const sql = openPool({ ...server.address, database: name }, { connections: 2, applicationName: 'test-restored' });
  ends.after(() => sql.end());
  return sql;
}

test('days are created and dropped under load and during a back-up without any effect on requests', async (t) => {
  const server = await startDebianServer(ends);
  const admin = openPool(server.address, { connections: 1, applicationName: 'test-admin' });
  await admin`create database live`;
  await admin.end();
  const sql = openPool({ ...server.address, database: 'live' }, { connections: 12, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 1 }));
  await migrate(sql, MIGRATIONS);
  await maintain(sql, TODAY);
  const receiver = await startReceiver(ends);
  const engine = await startEngine({ sql, ends });
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  const load = publishOn(engine, worker);

  // Six days pass, a run each.
  let day = FIRST;
  for (; day < FIRST + 6; day += 1) {
    await maintain(sql, day);
    await fillDay(sql, day);
  }
  const kept = (await partitionsOf(sql)).filter((name) => Number(/[0-9]+$/.exec(name)?.[0]) < TODAY - 1);
  assert.deepEqual(
    kept.length,
    PARENTS.length * (RETENTION_DAYS + 4),
    'the days within the retention, and the days ahead',
  );

  const before = await countsOf(sql);
  const file = join(server.address.directory, 'first.sql');
  const dump = startDump(server, 'live', file);
  const locked = () => sql`
    select from pg_locks l join pg_stat_activity a using (pid)
    where a.application_name = 'pg_dump' and l.relation = 'event'::regclass`;
  await until(locked, (rows) => rows.length > 0);
  const blocked = await maintain(sql, day);
  assert.deepEqual(blocked.dropped, [], 'the dump blocks the drop');
  assert.equal(blocked.created.length, PARENTS.length, 'the dump blocks only the drop');
  assert.deepEqual((await maintain(sql, day + 2)).dropped, [], 'a second drop stays pending beside the first');
  const soFar = load.accepted();
  await until(
    async () => load.accepted(),
    // One request of each publisher may have been answered before.
    (count) => count > soFar + PUBLISHERS * EVENTS_AT_ONCE,
  );
  // A dump of a moment at which days are being dropped.
  const between = join(server.address.directory, 'between.sql');
  assert.equal(await startDump(server, 'live', between).finish(), '');
  const during = await countsOf(sql);
  assert.equal(await dump.finish(), '');
  const { dropped } = await maintain(sql, day + 2);
  assert.deepEqual(dropped.length, PARENTS.length * 3, 'delayed drops are made up for');

  const accepted = await load.stop();
  t.diagnostic(`${accepted} events published`);
  const [row] = await sql<{ n: number }[]>`select count(*) as n from event where store_id = ${engine.storeId}`;
  assert.equal(row?.n, accepted);
  await until(
    () => sql`select from delivery`,
    (rows) => rows.length === 0,
  );
  const outcomes =
    await sql`select state, attempts, count(*) as n from delivery_done where store_id <> 7 group by 1, 2`;
  assert.deepEqual(
    outcomes.map((one) => [one['state'], one['attempts'], one['n']]),
    [['successful', 1, accepted]],
  );

  const restored = await restore(server, file, 'restored');
  const counts = await countsOf(restored);
  assert.equal(counts['old'], before['old']);
  assert.ok((counts['new'] ?? 0) >= (before['new'] ?? 0) && (counts['new'] ?? 0) <= (during['new'] ?? 0));
  assert.equal(counts['resources'], counts['new'], 'a back-up is of one moment');
  assert.deepEqual((await maintain(restored, TODAY + 40)).dropped.length > 0, true, 'and works');
  await restore(server, between, 'between');
});
