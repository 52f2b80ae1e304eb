/** Liveness and readiness for a balancer and a supervisor: of a process that serves, of one that only delivers, and while both stop. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { openPool, transaction, type Sql } from '#db/pool.ts';
import { systemClock } from '#core/clock.ts';
import { createLog } from '#core/log.ts';
import { startApp, type Role } from '../../src/server/app.ts';
import { readConfig } from '../../src/config/config.ts';
import { startTestApp } from '../setup/app.ts';
import { singleDatabase, testDatabase } from '../setup/database.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { KEY } from '../setup/engine.ts';
import { scrape } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { startProxy } from '../setup/proxy.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { openPools } from '../setup/store-pools.ts';
import { LOW_COST } from '../setup/passwords.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

async function ask(address: string, method = 'GET') {
  const response = await fetch(address, { method });
  const { status, headers } = response;
  const text = await response.text();
  return { status, headers, text };
}
async function healthOf(origin: string): Promise<string> {
  const { status, text } = await ask(`${origin}/health/ready`);
  return `${status} ${text}`;
}
const READY = '200 {"status":"ready"}';
const unready = (...missing: string[]): string => `503 ${JSON.stringify({ status: 'unready', missing })}`;

/** Starts a process without the API, whose metrics port answers. */
async function startDeliverer(sql: Sql, ends: Cleanups): Promise<string> {
  const port = await freePort();
  const config = readConfig({ METRICS_PORT: String(port), DELIVERY_LEASE_MS: '1000' }, process.cwd());
  const roles: Role[] = ['deliver'];
  const secretKeys = [randomBytes(32)] as const;
  const log = createLog('silent');
  const deps = {
    config,
    sql,
    direct: sql,
    secretKeys,
    clock: systemClock,
    pace: NEVER_QUIET,
    random: () => 0.5,
    passwordCost: LOW_COST,
    log,
    roles,
    openPools,
  };
  const running = await startApp(deps);
  ends.after(() => running.stop());
  return `http://127.0.0.1:${port}`;
}

test('the API and the metrics port report the same health, without authentication and without a version', async () => {
  const port = await freePort();
  const app = await startTestApp({ env: { METRICS_PORT: String(port) } });
  for (const origin of [app.baseUrl, `http://127.0.0.1:${port}`]) {
    await until(
      () => healthOf(origin),
      (said) => said === READY,
    );
    for (const [path, body] of [
      ['/health/live', '{"status":"live"}'],
      ['/health/ready', '{"status":"ready"}'],
      ['/health/ready?past=a-cache', '{"status":"ready"}'],
    ] as const) {
      // A process is unready for a moment if the machine pauses for longer than a check may take.
      const { status, headers, text } = await until(
        () => ask(origin + path),
        (answer) => answer.status === 200,
      );
      assert.deepEqual([status, text], [200, body]);
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.match(headers.get('content-type') ?? '', /^application\/json/);
      const head = await ask(origin + path, 'HEAD');
      assert.deepEqual([head.status, head.text, head.headers.get('content-length')], [200, '', String(body.length)]);
    }
  }
  assert.equal((await ask(`http://127.0.0.1:${port}/metrics?past=a-cache`)).status, 200);
  const refused = await ask(`${app.baseUrl}/health/ready`, 'POST');
  assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
  assert.equal((await ask(`${app.baseUrl}/health/ready`, 'OPTIONS')).status, 200);
});

test('a process whose tables are older than its code is not ready, but live', async () => {
  const app = await startTestApp({ roles: ['serve'] });
  const [newest] = await app.sql<{ version: number; name: string; hash: string; date_applied: Date }[]>`
    delete from schema_migration where version = (select max(version) from schema_migration) returning *`;
  assert.ok(newest !== undefined);
  await until(
    () => healthOf(app.baseUrl),
    (said) => said === unready('migrations'),
  );
  assert.equal((await ask(`${app.baseUrl}/health/live`)).status, 200);
  await app.sql`
    insert into schema_migration
    select * from jsonb_populate_record(null::schema_migration, ${app.sql.json(newest)})`;
  // Of a newer version, which is replacing this one.
  await app.sql`insert into schema_migration values (9999, 'newer', 'hash', now())`;
  await until(
    () => healthOf(app.baseUrl),
    (said) => said === READY,
  );
});

test('a process whose database refuses writes is not ready, but live, until it accepts them', async () => {
  const ends = cleanups();
  const { sql: admin, address } = await singleDatabase(ends);
  assert.ok(address.kind === 'socket');
  const sql = openPool(address, { connections: 2, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  const app = await startTestApp({ roles: ['serve'], sql });
  ends.after(app.stop);
  const settings = [
    `database ${address.database} set default_transaction_read_only`,
    `role ${address.user} in database ${address.database} set default_transaction_read_only`,
  ];
  for (const setting of settings)
    for (const [value, expected] of [
      ['on', unready('writes')],
      ['off', READY],
    ] as const) {
      await transaction(admin, (tx) => tx.unsafe(`alter ${setting} = ${value}`));
      // Sessions have the settings of their beginning.
      await admin`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`;
      await until(
        () => healthOf(app.baseUrl),
        (said) => said === expected,
      );
      assert.equal((await ask(`${app.baseUrl}/health/live`)).status, 200);
    }
});

test('a process that only delivers is ready while the database answers and its lease is valid', async () => {
  const ends = cleanups();
  const { address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const sql = openPool({ kind: 'url', url: proxy.url }, { connections: 2, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  const origin = await startDeliverer(sql, ends);
  await until(
    () => scrape(origin),
    (seen) => seen.value('halcyon_shards_held') === 256,
  );
  await until(
    () => healthOf(origin),
    (said) => said === READY,
  );

  // No connection was closed: only the missing answers show that the database is away.
  proxy.vanish();
  await until(
    () => healthOf(origin),
    (said) => said.startsWith('503') && said.includes('"database"'),
  );
  assert.equal((await ask(`${origin}/health/live`)).status, 200);
  const seen = await scrape(origin);
  assert.ok((seen.value('halcyon_database_connections_busy') ?? 0) >= 1);

  proxy.cut();
  await until(
    () => healthOf(origin),
    (said) => said === READY,
  );
});

test('a process that stops is unready before any part of it has stopped', async () => {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const app = await startTestApp({ env: { METRICS_PORT: String(port) } });
  const receiver = await startReceiver();
  const { promise: release, resolve } = Promise.withResolvers<void>();
  receiver.answer((_got, response) => void release.then(() => response.writeHead(204).end()));
  const hook = {
    name: 'Hook',
    format: 'json',
    url: receiver.url,
    encryption_key: KEY,
    events: ['transaction/created'],
  };
  assert.equal((await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: hook })).status, 201);
  const body = { event: 'transaction/created', resource: { id: 1, total: 1 } };
  await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
  await receiver.until(1);
  await until(
    () => healthOf(origin),
    (said) => said === READY,
  );

  const stopped = app.stop();
  assert.equal(await healthOf(origin), unready('stopping'));
  assert.equal((await ask(`${origin}/health/live`)).status, 200);
  assert.equal((await scrape(origin)).value('halcyon_delivery_in_flight'), 1);
  resolve();
  await stopped;
  await assert.rejects(healthOf(origin), TypeError, 'the port is closed');
});

test('a process that stops serves on for the delay, unready, and each response ends its connection', async () => {
  const app = await startTestApp({ roles: ['serve'], env: { SHUTDOWN_DELAY_SECONDS: '300' } });
  let isRetired = false;
  void app.retire().then(() => (isRetired = true));
  assert.equal(await healthOf(app.baseUrl), unready('stopping'));
  const { status, headers } = await app.api('GET', `/stores/${app.storeId}`);
  assert.deepEqual([status, headers.get('connection'), isRetired], [200, 'close', false]);
  await app.stop();
  await assert.rejects(ask(`${app.baseUrl}/health/ready`), (error: Error) => {
    assert.equal((error.cause as { code?: string }).code, 'ECONNREFUSED');
    return true;
  });
});
