/** The findings of `halcyon doctor` about a healthy Halcyon and about each fault, caused for real. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { keyIdOf } from '#db/seal.ts';
import { beat } from '#delivery/leases/leases-sql.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { readConfig } from '#config/config.ts';
import { limitMsOf, type Database } from '#cli/doctor/check.ts';
import { SERVER_CHECKS } from '#cli/doctor/map-checks.ts';
import { TABLE_CHECKS } from '#cli/doctor/table-checks.ts';
import { examine, HOME_CHECKS } from '#cli/doctor/examine.ts';
import { testClock } from '../setup/clock.ts';
import { runCommand, runProcess } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
import { assertFinding, findingsIn, findingsOf } from '../setup/findings.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';
import { settingsOf } from '../setup/several-databases.ts';
import { until } from '../setup/until.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type Changed = Database & {
  env: Record<string, string>;
  clock: ReturnType<typeof testClock>;
  address: DatabaseAddress;
};

const examined = (name: string, database: Database) => findingsOf(HOME_CHECKS, database, name);

/** A migrated database of its own, which the test damages. */
async function place(t: TestContext, env: Record<string, string> = {}): Promise<Changed> {
  const { sql, address } = await testDatabase(t);
  const config = readConfig({ DELIVERY_LEASE_MS: '500', ...env }, tmpdir());
  return { config, clock: testClock(), sql, direct: sql, env, address };
}

test('all is well beside a running Halcyon; a key that other users may read fails; without a process that is said', async (t) => {
  const fixture = await placeForFixture({ DELIVERY_LEASE_MS: '1500' });
  t.after(() => fixture.remove());
  const running = await startFixture(fixture);
  t.after(() => running.end('SIGKILL'));
  const well = await runProcess(['doctor', '--json'], fixture.env);
  // Whether this machine has name servers is not Halcyon's concern.
  const checked = findingsIn(well).filter(({ check }) => check !== 'names');
  assert.deepEqual(
    checked.filter(({ state }) => state !== 'ok'),
    [],
  );
  assert.deepEqual(
    checked.map(({ check }) => check),
    'node settings disk database connections sessions migrations partitions numbers key clocks transactions locks workers backlog webhooks events platform_store housekeeping slots ports addresses proxy mail'.split(
      ' ',
    ),
  );
  assert.match(checked.find(({ check }) => check === 'workers')?.message ?? '', /^1 worker with 256 of 256 shards$/);

  await chmod(join(fixture.dataDir, 'secret-key'), 0o644);
  const readable = await runCommand(['doctor', '--json'], fixture.env);
  assert.equal(readable.code, 1);
  assertFinding(findingsIn(readable), /^fail others .*secret-key$/);
  assert.match((JSON.parse(readable.err) as { error: { message: string } }).error.message, /checks? failed/);

  assert.equal(await running.end('SIGTERM'), 0);
  const { out } = await runCommand(['doctor'], fixture.env);
  assert.match(out, /^warn {2}database +no Halcyon .*\n +→ /m);
  const misplaced = await runCommand(['doctor'], { ...fixture.env, HALCYON_DATA: join(fixture.dataDir, 'secret-key') });
  assert.match(misplaced.out, /^fail {2}disk .*secret-key .*ENOTDIR.*\n.*→ .*HALCYON_DATA/m);
  assert.match(misplaced.err, /^halcyon: \d checks? failed/);
});

test('a server that would lose accepted data, or has a full disk', async (t) => {
  const { sql, address, ...rest } = await place(t, { DATABASE_CONNECTIONS: '500' });
  assert.ok(address.kind === 'socket');
  const set = (name: string, value: string) =>
    sql.unsafe(`alter database ${address.database} set ${name} = '${value}'`);
  await set('synchronous_commit', 'off');
  await set('work_mem', '64kB');
  const fresh = openPool(address, { connections: 2, applicationName: 'test' });
  t.after(() => fresh.end());
  const findings = await findingsOf(SERVER_CHECKS, { ...rest, sql: fresh, direct: fresh });
  // The cluster of the tests is one that may lose everything.
  assertFinding(findings, /^fail fsync is off/);
  assertFinding(findings, /^warn full_page_writes is off/);
  assertFinding(findings, /^fail synchronous_commit is off/);
  assertFinding(findings, /^warn work_mem is 64 kB/);
  // As many as the supervisor and the documents reckon with: the pool and six.
  assertFinding(findings, /^fail .* 506,/);
  assert.ok(findings.some(({ advice }) => advice?.includes('processes × (DATABASE_CONNECTIONS + 6)')));
});

test('a database that refuses writes', async (t) => {
  const { address, ...rest } = await place(t);
  const url = `${urlOf(address)}&default_transaction_read_only=on`;
  const reading = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'test' });
  t.after(() => reading.end());
  const findings = await findingsOf(SERVER_CHECKS, { ...rest, sql: reading, direct: reading });
  assertFinding(findings, /^fail default_transaction_read_only is on/);
  assert.equal(findings.length, 1, 'the checks of a database that works are skipped');
});

test('two addresses of two databases', async (t) => {
  const [one, other] = [await place(t), await testDatabase(t)];
  assertFinding(await examined('sessions', one), /^ok /);
  assertFinding(await examined('sessions', { ...one, direct: other.sql }), /^fail .* point to different databases/);
});

test('migrations that are missing, changed, or unknown to this version', async (t) => {
  const here = await place(t);
  assertFinding(await examined('migrations', here), /^ok all \d+ are applied/);
  await here.sql`update schema_migration set hash = 'other' where version = 38`;
  await here.sql`insert into schema_migration values (9999, '9999-later.sql', '', now())`;
  const findings = await examined('migrations', here);
  assertFinding(findings, /^fail changed .*: 0038/);
  assertFinding(findings, /^fail .* newer .* 9999-later\.sql/);
  await here.sql`update schema_migration set version = version - 1, name = 'last.sql' where version = 38`;
  await here.sql`delete from schema_migration where version = 9999`;
  assertFinding(await examined('migrations', here), /^fail not applied yet: 0038/);
  await here.sql`update schema_migration set version = version - 1`;
  assertFinding(await examined('migrations', here), /^fail .* older schema of last\.sql$/);
  await here.sql`drop table schema_migration`;
  assertFinding(await examined('migrations', here), /^fail .* no tables/);
});

test('days without partitions, and days past their retention', async (t) => {
  const here = await place(t, { RETENTION_DAYS: '2' });
  assertFinding(await examined('partitions', here), /^ok /);
  const day = dayOf(here.clock.now());
  await here.sql`alter table event detach partition ${here.sql(`event_d${day + 2}`)}`;
  const apart = await examined('partitions', here);
  assertFinding(apart, /^warn .* next 2 days 1 day /);
  assertFinding(apart, /^warn 1 table half attached or detached/);
  here.clock.advance(10 * DAY_MS);
  const late = await examined('partitions', here);
  assertFinding(late, /^fail there is no table for today/);
  assertFinding(late, /^warn \d+ tables .*RETENTION_DAYS/);
});

test('a day whose ids are nearly used up', async (t) => {
  const here = await place(t);
  assertFinding(await examined('numbers', here), /^ok /);
  const day = dayOf(here.clock.now());
  await here.sql`select setval(${`delivery_n_d${day}`}::regclass, ${6e8}::bigint)`;
  assertFinding(await examined('numbers', here), /^warn 55 % .* deliveries /);
  await here.sql`select setval(${`event_n_d${day}`}::regclass, ${1_020_000_000}::bigint)`;
  assertFinding(await examined('numbers', here), /^fail 94 % .* events /);
});

async function addStore(sql: Sql, id = 1_001): Promise<number> {
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shardOf(id)}, ${id}, 'S', 's.example', 's@s.example', 'UTC', now(), now())`;
  return id;
}

async function addWebhook(sql: Sql, storeId: number, number: number, key: Buffer | null = null): Promise<number> {
  const id = storeId + 256 * number;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    values (${shardOf(id)}, ${id}, ${storeId}, 'W', 'partner_automation', '2', ${key}, 'transaction', '{created}', true,
      '{}', 'hour', now(), now())`;
  return id;
}

test('a key other than the first one, and a secret that it does not open', async (t) => {
  const [key, other] = [randomBytes(32), randomBytes(32)];
  const here = await place(t, { HALCYON_SECRET_KEY: key.toString('hex') });
  await here.sql`insert into sealing_key (key_id) values (${keyIdOf(key)})`;
  assertFinding(await examined('key', here), /^ok HALCYON_SECRET_KEY /);
  await addWebhook(here.sql, await addStore(here.sql), 1, randomBytes(64));
  assertFinding(await examined('key', here), /^fail 1 secret .*\(webhook:/);
  const config = readConfig({ HALCYON_SECRET_KEY: other.toString('hex') }, '/');
  assertFinding(await examined('key', { ...here, config }), /^fail .*another key than HALCYON_SECRET_KEY/);
  const both = { HALCYON_SECRET_KEY: other.toString('hex'), HALCYON_SECRET_KEY_OTHER: key.toString('hex') };
  assertFinding(await examined('key', { ...here, config: readConfig(both, '/') }), /^warn .*the other key/);
});

test('clocks that differ', async (t) => {
  const here = await place(t);
  assertFinding(await examined('clocks', here), /^ok /);
  // Half a second above, because the measurement is inexact by half of the round trip.
  here.clock.advance(10_500);
  assertFinding(await examined('clocks', here), /^warn .* 10\.\d s apart/);
  here.clock.advance(HOUR_MS);
  assertFinding(await examined('clocks', here), /^fail .* s apart/);
});

/** Returns the place with new connections to its database, in which `clock_timestamp` returns what the expression says. */
async function withClock(t: TestContext, here: Changed, expression: string): Promise<Database> {
  const { sql, address } = here;
  assert.ok(address.kind === 'socket');
  await sql`create schema wrong`;
  await sql.unsafe(
    `create function wrong.clock_timestamp() returns timestamptz language sql as $$ select ${expression} $$`,
  );
  await sql`alter database ${sql(address.database)} set search_path = wrong, pg_catalog, public`;
  const direct = openPool(address, { connections: 2, applicationName: 'doctor' });
  t.after(() => direct.end());
  return { ...here, sql: direct, direct };
}

test('a clock that cannot be read is not reported as correct', async (t) => {
  const here = await withClock(t, await place(t), `timestamptz 'infinity'`);
  const [found, ...others] = await examined('clocks', here);
  assert.deepEqual([found?.state, others], ['fail', []]);
  assert.doesNotMatch(found?.message ?? '', /apart/);
});

test('a transaction that stays open, and the sessions that wait for it', async (t) => {
  const here = await place(t);
  const anHourLater = await withClock(t, here, `pg_catalog.clock_timestamp() + interval '1 hour'`);
  const storeId = await addStore(here.sql);
  assertFinding(await examined('transactions', anHourLater), /^ok /);
  const holder = await here.sql.reserve();
  await holder`begin`;
  await holder`update store set name = 'held' where id = ${storeId}`;
  const waiter = here.sql`update store set name = 'waits' where id = ${storeId}`.execute();
  const waits = await until(
    () => examined('locks', anHourLater),
    ([first]) => first?.state === 'warn',
  );
  const [session] = await holder<{ pid: number }[]>`select pg_backend_pid() as pid`;
  assertFinding(waits, new RegExp(`^warn "test" .* ${session?.pid} `));
  assertFinding(await examined('transactions', anHourLater), /^warn "test" .*transaction/);
  await holder`rollback`;
  holder.release();
  await waiter;
  assertFinding(await examined('locks', anHourLater), /^ok /);
});

test('two heartbeats of a worker are awaited, however long a lease is', async (t) => {
  const here = await place(t);
  const workers = TABLE_CHECKS.find(({ name }) => name === 'workers');
  assert.ok(workers !== undefined);
  for (const leaseMs of [500, 50_000, 600_000]) {
    const config = readConfig({ DELIVERY_LEASE_MS: String(leaseMs) }, '/');
    assert.equal(limitMsOf(workers, { ...here, config }), 20_000 + 2 * config.delivery.beatMs);
  }
});

test('no worker; a silent worker; a worker without shards', async (t) => {
  const here = await place(t);
  assertFinding(await examined('workers', here), /^warn no worker delivers$/);
  await beat(here.sql, 7, here.clock.now());
  assertFinding(await examined('workers', here), /^warn no worker delivers: 1 worker /);
  const looking = examined('workers', here);
  const watch = { isOver: false };
  void looking.finally(() => (watch.isOver = true));
  while (!watch.isOver) await beat(here.sql, 8, here.clock.now());
  assertFinding(await looking, /^warn 1 worker .* 0 of 256 .* 1 other /);
});

async function addDue(sql: Sql, webhookId: number, due: Date): Promise<void> {
  const [shard, id] = [shardOf(webhookId), dailyIdOf(dayOf(due), 1, shardOf(webhookId))];
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (${shard}, ${id}, 1001, ${webhookId}, 0, ${id}, ${due})`;
}

test('deliveries that wait for Halcyon, deliveries that wait for their endpoint, and endpoints that all fail', async (t) => {
  const here = await place(t);
  const storeId = await addStore(here.sql);
  const [one, other] = [await addWebhook(here.sql, storeId, 1), await addWebhook(here.sql, storeId, 2)];
  await addDue(here.sql, one, here.clock.now());
  assertFinding(await examined('backlog', here), /^ok 1 delivery pending; 1 webhook /);
  here.clock.advance(120_000);
  assertFinding(await examined('backlog', here), /^warn 1 delivery .* 1 webhook .* 2 minutes/);
  here.clock.advance(HOUR_MS);
  assertFinding(await examined('backlog', here), /^fail 1 delivery .* 1 webhook /);
  assertFinding(await examined('webhooks', here), /^ok 2 active, of which 0 fail/);
  for (const id of [one, other]) {
    await here.sql`
      insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
      values (${shardOf(id)}, ${id}, 0, 3, now())`;
  }
  assertFinding(await examined('backlog', here), /^ok 1 delivery .* 0 webhooks .* 1 wait/);
  assertFinding(await examined('webhooks', here), /^warn 2 active, of which 2 fail/);
});

test('each finding is reported before the next check', async (t) => {
  const { sql, clock, address } = await place(t);
  await addDue(sql, await addWebhook(sql, await addStore(sql), 1), clock.now());
  const findings = await examine({
    env: { ...settingsOf({ url: urlOf(address) }), DELIVERY_LEASE_MS: '500' },
    cwd: '/',
    nodeVersion: process.versions.node,
    clock,
    onFinding: ({ check }) => {
      if (check === 'workers') clock.advance(HOUR_MS);
    },
  });
  assertFinding(findings, /^fail 1 delivery .* 1 webhook /);
});

test('rows that retention has not deleted', async (t) => {
  const here = await place(t);
  assertFinding(await examined('housekeeping', here), /^ok /);
  await here.sql`
    insert into idempotency_key (scope, body_hash, answer, date_created)
    values (${randomBytes(32)}, ${randomBytes(32)}, null, now() - interval '5 days')`;
  assertFinding(await examined('housekeeping', here), /^warn .* 5 days ago/);
});
