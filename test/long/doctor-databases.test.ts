/** What `halcyon doctor` prints about several databases, and about each fault of their map, caused for real. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { test, type TestContext } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { systemClock } from '#core/clock.ts';
import { dayOf, firstIdOfDay, idOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { writeHome } from '#shards/map-sql.ts';
import { readConfig } from '#config/config.ts';
import { openInstallation } from '../../src/cli/installation.ts';
import { lineOf } from '../../src/cli/doctor/doctor-command.ts';
import { examine } from '../../src/cli/doctor/examine.ts';
import type { Finding } from '../../src/cli/doctor/check.ts';
import { runCommand } from '../setup/command.ts';
import { emptyDatabase, urlOf } from '../setup/database.ts';
import { saidOf } from '../setup/findings.ts';
import { freePort } from '../setup/free-port.ts';
import { settingsOf, severalDatabases, type OneOfSeveral } from '../setup/several-databases.ts';

type Place = { home: OneOfSeveral; b: OneOfSeveral; c: OneOfSeveral; env: Record<string, string>; secretKey: Buffer };

/** Three databases: the home database has the shards 0-99, `b` 100-199 and `c` 200-255. */
async function place(t: TestContext): Promise<Place> {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const secretKey = randomBytes(32);
  const given = settingsOf(home, { '0-99': home, '100-199': b, '200-255': c }, secretKey);
  const env = { ...given, DELIVERY_LEASE_MS: '500', DATABASE_CONNECTIONS: '2', PORT: String(await freePort()) };
  const { close } = await openInstallation(readConfig(env, tmpdir()), createLog('fatal'), { usesRunningServer: true });
  await close();
  return { home, b, c, env, secretKey };
}

/** The test server may lose everything, and no process runs: neither concerns the map. */
const OF_THE_SERVER = /^(?:database|connections|partitions|workers|names|ports|addresses|servers)$/;

/** Runs the checks; returns the problems, which are printed with the results of the test. */
async function problems(t: TestContext, env: Record<string, string>): Promise<Finding[]> {
  const findings = await examine({
    env,
    cwd: tmpdir(),
    nodeVersion: process.versions.node,
    clock: systemClock,
    onFinding: () => {},
  });
  const found = findings.filter(({ state, check }) => state !== 'ok' && !OF_THE_SERVER.test(check));
  for (const finding of found) for (const line of lineOf(finding).split('\n')) t.diagnostic(line);
  assert.doesNotMatch(JSON.stringify(findings), /postgres:\/\/\w+:|password-of/, 'no finding has a password');
  return found;
}

const said = (findings: readonly Finding[]): string => findings.map((one) => `${one.check}: ${saidOf(one)}`).join('\n');

test('a map without faults: every database is checked, by its name', async (t) => {
  const { home, b, c, env } = await place(t);
  assert.equal(said(await problems(t, env)), '');
  const { out } = await runCommand(['doctor'], env);
  assert.ok(out.includes(`version 3 of the map: ${home.name} has 0-99; ${b.name} has 100-199; ${c.name} has 200-255`));
  for (const { name } of [b, c]) {
    for (const check of ['migrations', 'key', 'backlog', 'slots', 'numbers', 'map'])
      assert.match(out, new RegExp(`^ok +${check} +${name}: `, 'm'), check);
    assert.match(out, new RegExp(`^(?:ok|warn|fail) +database +${name}: `, 'm'));
  }
  assert.match(out, /^ok +leases +256 shards of 3 databases have one lease each$/m);
  assert.match(out, /^ok +outbox /m);
  assert.match(out, /servers .* 3 databases × 8\)/);
  const without = { ...env, SHARD_DATABASES: '' };
  assert.equal(said(await problems(t, without)), '', 'the map is checked without the setting as well');
});

test('a gap: no database owns a shard, or none delivers it', async (t) => {
  const { home, b, env } = await place(t);
  await b.sql`delete from shard_lease where shard in (150, 151)`;
  assert.equal(said(await problems(t, env)), 'leases: fail no database delivers the shards 150-151');
  await home.sql`delete from shard_owner where shard = 150`;
  assert.match(said(await problems(t, env)), /^map: fail no database owns the shards 150: version 3/m);
});

test('an overlap: two databases deliver a shard, or one that does not own it', async (t) => {
  const { b, c, env } = await place(t);
  await c.sql`insert into shard_lease (shard) values (110), (111)`;
  assert.equal(
    said(await problems(t, env)),
    `leases: fail two databases deliver the shards 110-111: ${b.name} and ${c.name}`,
  );
  await b.sql`delete from shard_lease where shard in (110, 111)`;
  assert.equal(
    said(await problems(t, env)),
    `leases: fail ${c.name} delivers the shards 110-111, which it does not own`,
  );
});

test('one database that lacks leases, without a map', async (t) => {
  const [home] = await severalDatabases(t, 1);
  const env = { ...settingsOf(home), DELIVERY_LEASE_MS: '500' };
  assert.equal(said(await problems(t, env)), '');
  await home.sql`delete from shard_lease where shard = 7`;
  assert.equal(said(await problems(t, env)), 'leases: fail no database delivers the shards 7');
});

test('a setting that cannot become the first map, and a DATABASE_URL that is not the home database', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const env = { ...settingsOf(home, { '0-127': home, '128-255': b }), DELIVERY_LEASE_MS: '500' };
  assert.match(said(await problems(t, env)), /^map: warn there is no map yet/);
  const id = idOf(7, 200);
  await home.sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (200, ${id}, 'S', 's.example', 's@s.example', 'UTC', now(), now())`;
  assert.match(said(await problems(t, env)), /^map: fail The home database has stores in the shards 200, /);
  await writeHome(b.sql, randomUUID());
  const other = settingsOf(b);
  assert.match(said(await problems(t, other)), /^map: fail The database of DATABASE_URL is in the map of another/);
});

test('a setting that differs from the map', async (t) => {
  const { home, b, c, env, secretKey } = await place(t);
  const differing = settingsOf(home, { '0-98': home, '99-199': b, '200-255': c }, secretKey);
  assert.match(
    said(await problems(t, { ...env, ...differing })),
    /^map: fail .*differs for the shards 99 from version 3/,
  );
});

test('an old schema, a changed migration, and a database without tables', async (t) => {
  const { home, b, c, env, secretKey } = await place(t);
  await b.sql`delete from schema_migration where version = 38`;
  await c.sql`update schema_migration set hash = 'other' where version = 38`;
  const found = said(await problems(t, env));
  assert.match(found, new RegExp(`^migrations: fail ${b.name}: not applied yet: 0038-schema\\.sql$`, 'm'));
  assert.match(found, new RegExp(`^migrations: fail ${c.name}: changed after they were applied: 0038`, 'm'));
  const empty = await emptyDatabase(t);
  const address = createSealer(secretKey).seal(urlOf(empty.address), 'shard_database:1');
  await home.sql`update shard_database set address = ${address} where id = 1`;
  assert.match(said(await problems(t, { ...env, SHARD_DATABASES: '' })), /: the database has no tables of Halcyon$/m);
  const { out } = await runCommand(['doctor'], { ...env, SHARD_DATABASES: '' });
  assert.match(out, /no tables of Halcyon\n? *→ It is not the database of the map/);
});

test('a wrong clock: seconds between two servers', async (t) => {
  const { b, env } = await place(t);
  assert.ok(b.address.kind === 'socket');
  const turn = async (seconds: number): Promise<void> => {
    await b.sql`create schema if not exists wrong`;
    await b.sql.unsafe(`create or replace function wrong.clock_timestamp() returns timestamptz language sql as
      $$ select pg_catalog.clock_timestamp() + interval '${seconds} seconds' $$`);
  };
  await turn(3);
  await b.sql`alter database ${b.sql(b.address.database)} set search_path = wrong, pg_catalog, public`;
  assert.match(
    said(await problems(t, env)),
    new RegExp(`^clocks: warn the clock of ${b.name} is (?:3\\.\\d|2\\.9) s ahead of `, 'm'),
  );
  await turn(-60);
  assert.match(
    said(await problems(t, env)),
    new RegExp(`^clocks: fail the clock of .* is .* s ahead of ${b.name}$`, 'm'),
  );
});

test('a database that is down is named, and the others are checked', async (t) => {
  const { home, b, c, env, secretKey } = await place(t);
  const url = `postgres://halcyon:password-of-b@127.0.0.1:${await freePort()}/halcyon`;
  const address = createSealer(secretKey).seal(url, 'shard_database:1');
  await home.sql`update shard_database set address = ${address} where id = 1`;
  const { out } = await runCommand(['doctor'], { ...env, SHARD_DATABASES: '' });
  assert.match(out, new RegExp(`^fail +database +${b.name}: PostgreSQL cannot be used: .*\\n.*SHARD_DATABASES`, 'm'));
  assert.match(out, new RegExp(`^ok +backlog +${c.name}: `, 'm'));
  assert.match(out, /^ok +leases +156 shards of 2 databases /m);
  assert.doesNotMatch(out, /password-of-b/);
});

test('another database at the address, and an address that no key opens', async (t) => {
  const { home, c, env, secretKey } = await place(t);
  const address = createSealer(secretKey).seal(c.url, 'shard_database:1');
  await home.sql`update shard_database set address = ${address} where id = 1`;
  const without = { ...env, SHARD_DATABASES: '' };
  assert.match(said(await problems(t, without)), /^map: fail .*another database than that of the map/m);
  await home.sql`update shard_database set address = ${randomBytes(80) as Buffer} where id = 1`;
  assert.match(said(await problems(t, without)), /^map: fail the address of .* cannot be decrypted/m);
});

test('sequences behind the ids of a database: of webhooks, events and deliveries', async (t) => {
  const { b, env } = await place(t);
  const [storeId, webhookId] = [idOf(3, 120), idOf(900, 120)];
  await b.sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (120, ${storeId}, 'S', 's.example', 's@s.example', 'UTC', now(), now())`;
  await b.sql`
    insert into webhook (shard, id, store_id, name, format, version, event_resource, events, is_active, headers, retry_profile,
      date_created, date_modified)
    values (120, ${webhookId}, ${storeId}, 'W', 'partner_automation', '2', 'transaction', '{created}', true, '{}', 'hour', now(), now())`;
  const day = dayOf(new Date());
  const deliveryId = firstIdOfDay(day) + idOf(40, 120);
  await b.sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (120, ${deliveryId}, ${storeId}, ${webhookId}, 0, ${deliveryId}, now() + interval '1 hour')`;
  const found = said(await problems(t, env));
  assert.match(found, new RegExp(`^numbers: fail ${b.name}: the sequence id_n is at its start, but .* 900:`, 'm'));
  assert.match(found, new RegExp(`^numbers: fail ${b.name}: the sequence delivery_n_d${day} is at .* 40:`, 'm'));
  await b.sql`select setval('id_n', 900), setval(${`delivery_n_d${day}`}::regclass, 40)`;
  assert.equal(said(await problems(t, env)), '');
});

test('changes that wait in the outbox, and a replication slot that nothing reads', async (t) => {
  const { home, b, c, env } = await place(t);
  const add = (database: number, age: string) => home.sql`
    insert into outbox (database, shard, kind, body, date_created)
    values (${database}, 120, 'store', '{}', now() - ${age}::interval)`;
  await add(1, '5 seconds');
  await add(1, '3 minutes');
  await add(2, '1 hour');
  const found = said(await problems(t, env));
  assert.match(found, new RegExp(`^outbox: warn 2 changes for ${b.name}, the oldest for 3 minutes$`, 'm'));
  assert.match(found, new RegExp(`^outbox: fail 1 change for ${c.name}, the oldest for 60 minutes$`, 'm'));
  await home.sql`delete from outbox`;
  await home.sql`select pg_create_physical_replication_slot('unread', true)`;
  try {
    assert.match(said(await problems(t, env)), /^slots: warn the slot unread is inactive and retains \d+ MiB/m);
  } finally {
    await home.sql`select pg_drop_replication_slot('unread')`;
  }
});
