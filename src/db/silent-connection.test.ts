import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { openPool, transaction } from './pool.ts';
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

test('a silent pool connection is closed, and the next statement uses another one', async () => {
  const { sql, proxy } = await open();
  await sql`select 1`;
  proxy.silence();
  let why: unknown;
  sql`select 2`.catch((error: unknown) => (why = error));
  await until(async () => why, isUnavailable);
  assert.deepEqual([...(await sql`select 3 as n`)], [{ n: 3 }]);
});

test('a silent connection is closed in the middle of a transaction, too', async () => {
  const { sql, proxy } = await open();
  const broken = transaction(sql, async (tx) => {
    await tx`select 1`;
    proxy.silence();
    return tx`select 2`;
  });
  await assert.rejects(broken, isUnavailable);
  assert.deepEqual([...(await sql`select 3 as n`)], [{ n: 3 }]);
});

test('a statement that is given up because it is slow does not continue on the server', async () => {
  const { direct, sql } = await open();
  const running = () => direct`
    select pid from pg_stat_activity where datname = current_database() and state = 'active' and query like 'select pg_sleep%'`;
  const slow = assert.rejects(sql`select pg_sleep(60)`, isUnavailable);
  await until(running, (rows) => rows.length === 1);
  await slow;
  await until(running, (rows) => rows.length === 0);
});

test('a connection without a running statement may be silent', async () => {
  const { direct, sql } = await open();
  const pid = async () => (await sql<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]?.pid;
  const before = await pid();
  await direct`select pg_sleep(${(2 * SILENCE_MS) / 1_000})`;
  assert.equal(await pid(), before);
});
