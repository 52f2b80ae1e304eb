import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { openDedicated, openPool, transaction, type Sql } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const SILENCE_MS = 500;

async function open() {
  const ends = cleanups();
  const { sql: direct, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const settings = { connections: 1, applicationName: 'test', silenceMs: SILENCE_MS };
  const sql = openPool({ kind: 'url', url: proxy.url }, settings);
  ends.after(() => sql.end({ timeout: 0 }));
  return { direct, sql, proxy };
}

/** Returns the session of the pool. A statement is repeated, because a busy machine may be silent as well. */
async function pidOf(sql: Sql): Promise<number> {
  const [row] = await until(
    () => sql<{ pid: number }[]>`select pg_backend_pid() as pid`.catch(() => []),
    ({ length }) => length === 1,
  );
  assert.ok(row);
  return row.pid;
}

test('a silent pool connection is closed, and the next statement uses another one', async () => {
  const { sql, proxy } = await open();
  const before = await pidOf(sql);
  proxy.silence();
  let why: unknown;
  sql`select 2`.catch((error: unknown) => (why = error));
  await until(async () => why, isUnavailable);
  assert.notEqual(await pidOf(sql), before);
});

test('a dedicated connection waits for no pool, and is replaced if it is silent or its server accepts no connection', async () => {
  const { sql: pool, proxy } = await open();
  const pooled = await pidOf(pool);
  const held = await pool.reserve();
  let lost = 0;
  const sql = openDedicated(pool, SILENCE_MS, () => (lost += 1));
  try {
    const before = await pidOf(sql);
    assert.notEqual(before, pooled);
    proxy.silence();
    await assert.rejects(sql`select 2`, isUnavailable);
    assert.notEqual(lost, 0);
    proxy.vanish();
    await assert.rejects(sql`select 3`, { code: 'CONNECT_TIMEOUT' });
    proxy.cut();
    assert.notEqual(await pidOf(sql), before);
  } finally {
    held.release();
    await sql.end({ timeout: 0 });
  }
});

test('a dedicated connection is opened to the second host if the first accepts none', async () => {
  const ends = cleanups();
  const { address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const [gone, other] = [await startProxy(address, ends), await startProxy(address, ends)];
  gone.vanish();
  const hosts = `${new URL(gone.url).host},${new URL(other.url).host}`;
  const url = gone.url.replace(new URL(gone.url).host, hosts);
  const pool = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'test' });
  ends.after(() => pool.end({ timeout: 0 }));
  const sql = openDedicated(pool, SILENCE_MS);
  ends.after(() => sql.end({ timeout: 0 }));
  assert.ok(await pidOf(sql));
});

test('a silent connection is closed in the middle of a transaction, too', async () => {
  const { sql, proxy } = await open();
  const broken = transaction(sql, async (tx) => {
    await tx`select 1`;
    proxy.silence();
    return tx`select 2`;
  });
  await assert.rejects(broken, isUnavailable);
  assert.ok(await pidOf(sql));
});

test('a statement that is given up because it is slow does not continue on the server', async () => {
  const { direct, sql } = await open();
  const running = () => direct`
    select pid from pg_stat_activity where datname = current_database() and state = 'active' and query like 'select pg_sleep%'`;
  let isOver = false;
  const slow = assert.rejects(sql`select pg_sleep(60)`, isUnavailable).then(() => (isOver = true));
  await until(running, (rows) => isOver || rows.length === 1);
  await slow;
  await until(running, (rows) => rows.length === 0);
});

test('a connection without a running statement may be silent', async () => {
  const { direct, sql } = await open();
  const pid = await pidOf(sql);
  await direct`select pg_sleep(${(2 * SILENCE_MS) / 1_000})`;
  assert.equal((await direct`select from pg_stat_activity where pid = ${pid}`).length, 1);
});
