/**
 * Everything through PgBouncer in transaction mode, except operations that need a session: started on an empty schema, published,
 * notified by LISTEN, delivered by two workers, taken over and stopped.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPool } from '#db/pool.ts';
import { checkPooled, checkServer } from '#db/usable.ts';
import { systemClock } from '#core/clock.ts';
import { readConfig } from '#config/config.ts';
import { SESSIONS } from '#cli/doctor/map-checks.ts';
import { assertFinding, findingsOf } from '../setup/findings.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { openServer, type SocketAddress } from '../setup/fleet/server.ts';
import { until } from '../setup/until.ts';
import { databaseEnvOf } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';
import { isRoot, UNPRIVILEGED } from '../setup/embedded-process.ts';

const PROGRAM = '/usr/sbin/pgbouncer';
/** Fewer than the processes together would open: connections are shared, and waited for. */
const SERVER_CONNECTIONS = 12;

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

/** Returns the address of the database through it. */
async function startBouncer(address: SocketAddress, ends: Cleanups): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-bouncer-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const { directory, user, password, database } = address;
  const port = await freePort();
  const lines = [
    '[databases]',
    `${database} = host=${directory} port=5432 user=${user} password=${password}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    // Every client is mapped to the user above: authentication is not tested here.
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${SERVER_CONNECTIONS}`,
    'max_client_conn = 200',
  ];
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(file, lines.join('\n'));
  const account = isRoot ? UNPRIVILEGED : {};
  const child = spawn(PROGRAM, ['--quiet', file], { stdio: 'ignore', cwd: '/', ...account });
  const exited = once(child, 'exit');
  ends.after(async () => {
    child.kill('SIGINT');
    await exited;
  });
  await until(() => answers(port), Boolean);
  return `postgres://${user}@127.0.0.1:${port}/${database}`;
}

/** Without a notification a worker looks at the whole table 30 s after its first look. */
const NOTIFIED_WITHIN_MS = 20_000;
const SOME = 200;

const ends = cleanups();
const server = await openServer(ends);
const { user, password } = server.address;
const databaseEnv = {
  PGUSER: user,
  PGPASSWORD: password,
  DATABASE_URL: await startBouncer(server.address, ends),
  DATABASE_DIRECT_URL: databaseEnvOf(server.address).DATABASE_URL,
};
const fleet = await openFleet({ ends, server, databaseEnv });
const { ledger, sql } = fleet;
await fleet.startPublisher();

test('doctor reports a pooler in place of PostgreSQL, and accepts PostgreSQL itself', async (t) => {
  const through = (isShared: boolean) => {
    const options = { connections: 2, applicationName: 'test', isShared };
    const pool = openPool({ kind: 'url', url: databaseEnv.DATABASE_URL }, options);
    t.after(() => pool.end({ timeout: 0 }));
    return pool;
  };
  // PgBouncer without a setting that names it: it accepts no settings of the planner.
  await assert.rejects(checkServer(through(false)), /unsupported startup parameter.*options.*DATABASE_DIRECT_URL/);
  const throughPool = through(true);
  await checkPooled(throughPool);
  const config = readConfig({}, '/');
  const place = { config, clock: systemClock, sql: throughPool };
  assertFinding(await findingsOf([SESSIONS], { ...place, direct: throughPool }), /^fail .* points to a pooler/);
  assertFinding(await findingsOf([SESSIONS], { ...place, direct: sql }), /^ok /);
});

test('every session of a pooler has the time zone of Halcyon', async (t) => {
  const address = { kind: 'url', url: databaseEnv.DATABASE_URL } as const;
  const [where] = await sql<{ name: string }[]>`select current_database() as name`;
  const name = sql(where?.name ?? '');
  await sql`alter database ${name} set timezone = 'Asia/Tokyo'`;
  t.after(() => sql`alter database ${name} reset timezone`);
  const pools = [1, 2, 3].map(() => openPool(address, { connections: 2, applicationName: 'test', isShared: true }));
  for (let round = 0; round < 20; round += 1) {
    const zones = await Promise.all(
      [...pools, ...pools].map((pool) => pool<{ zone: string }[]>`select current_setting('TimeZone') as zone`),
    );
    assert.deepEqual(new Set(zones.map(([row]) => row?.zone)), new Set(['UTC']));
  }
  await Promise.all(pools.map((pool) => pool.end()));
});

test('a whole delivery works through PgBouncer in transaction mode', async (t) => {
  const [first, second] = await Promise.all([fleet.startWorker(), fleet.startWorker()]);
  await until(
    () => sql<{ n: number }[]>`select count(distinct owner) as n from shard_lease where owner is not null`,
    ([row]) => row?.n === 2,
  );
  const since = performance.now();
  await fleet.startLoad();
  await until(
    async () => ledger.delivered,
    (count) => count > SOME,
  );
  const arrivedMs = ledger.arrivals[0]?.arrivedMs ?? Number.POSITIVE_INFINITY;
  assert.ok(
    arrivedMs - since < NOTIFIED_WITHIN_MS,
    'the owner was notified of an event that another process published',
  );
  ledger.fault(first.life, 'killed');
  await first.end('SIGKILL');
  const before = ledger.sentBy(second.life).length;
  await until(
    () => sql<{ n: number }[]>`select count(distinct owner) as n from shard_lease`,
    ([row]) => row?.n === 1,
  );
  await until(
    async () => ledger.sentBy(second.life).length,
    (count) => count > before + SOME,
  );
  await fleet.settle(t);
  assert.equal(await second.end('SIGTERM'), 0, second.said());
  const [left] = await sql<{ n: number }[]>`select count(*) as n from shard_lease where owner is not null`;
  assert.equal(left?.n, 0);
});
