import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { openPool, transaction, type Sql } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const CUTS = 10;
const PATIENCE_MS = 5_000;

async function open(connections: number) {
  const ends = cleanups();
  const { sql: direct, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const sql = openPool({ kind: 'url', url: proxy.url }, { connections, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  return { direct, sql, proxy };
}

/** Returns whether the pool answers; an error other than an unavailable database fails the test. */
const answersOf = (sql: Sql) => () =>
  sql`select 1`.then(
    () => true,
    (error: unknown) => assert.ok(isUnavailable(error), String(error)) ?? false,
  );

test('a pool works again at once after the connection of a transaction was reset', async () => {
  const { direct, sql, proxy } = await open(1);
  const sleeping = () => direct<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and state = 'active' and query like 'select pg_sleep%'`;
  const answered = answersOf(sql);
  const before = new Set<number>();
  for (let cut = 0; cut < CUTS; cut += 1) {
    await until(answered, Boolean, PATIENCE_MS);
    const broken = transaction(sql, async (tx) => tx`select pg_sleep(30)`);
    void broken.catch(() => {});
    const asleep = await until(sleeping, (rows) => rows.some(({ pid }) => !before.has(pid)));
    for (const { pid } of asleep) before.add(pid);
    // The rollback is then written to a connection that is already broken.
    proxy.cut();
    await assert.rejects(broken, isUnavailable);
  }
  await until(answered, Boolean, PATIENCE_MS);
});

test('a transaction whose connection was cut sends nothing more', async () => {
  const { sql, proxy } = await open(1);
  await sql`select 1`;
  const late = Promise.withResolvers<unknown>();
  const goOn = async (ask: () => Promise<unknown>): Promise<void> => {
    const again = () =>
      sql`select 1`.then(
        () => true,
        () => false,
      );
    await until(again, Boolean);
    late.resolve(await ask().catch((error: unknown) => error));
  };
  const broken = transaction(sql, async (tx) => {
    await tx`select 1`;
    proxy.cut();
    await goOn(async () => tx`select 2`);
  });
  await assert.rejects(broken, isUnavailable);
  assert.ok(isUnavailable(await late.promise), 'it was sent on another connection');
});

test('a transaction whose connection was cut rejects at once, also if it waits for something else', async () => {
  const { sql, proxy } = await open(1);
  const { promise: late, resolve } = Promise.withResolvers<void>();
  let why: unknown;
  const broken = transaction(sql, async (tx) => {
    await tx`select 1`;
    proxy.cut();
    await late;
  }).catch((error: unknown) => (why = error));
  await until(async () => why, isUnavailable, PATIENCE_MS);
  resolve();
  await broken;
});

test('a transaction whose COMMIT is not answered rejects as unavailable', async () => {
  const { sql, proxy } = await open(1);
  await sql`select 1`;
  const dropped = proxy.cutUnanswered(0);
  await assert.rejects(
    transaction(sql, async (tx) => tx`select 1`),
    isUnavailable,
  );
  assert.equal(await dropped, 1);
});

test('a transaction that ignores its lost connection affects nothing else', async () => {
  const { sql, proxy } = await open(1);
  await sql`select 1`;
  const broken = transaction(sql, async (tx) => {
    const lost = tx`select pg_sleep(30)`.catch(() => {});
    proxy.cut();
    await lost;
    await tx`select 2`;
  });
  await assert.rejects(broken, isUnavailable);
  await until(answersOf(sql), Boolean, PATIENCE_MS);
});
