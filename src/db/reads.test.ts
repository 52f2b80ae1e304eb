import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { openPool } from './pool.ts';

const { sql, address } = await emptyDatabase();

const backend = (on: Pick<typeof sql, 'reads'>) => on.reads<{ pid: number }[]>`select pg_backend_pid() as pid`;

function settles(promise: Promise<unknown>): { isSettled: boolean } {
  const state = { isSettled: false };
  void promise.finally(() => (state.isSettled = true));
  return state;
}

test('reads of one tick share a connection, and each gets its own result', async () => {
  const rows = await Promise.all(
    Array.from(
      { length: 20 },
      (_, n) => sql.reads<{ n: number; pid: number }[]>`
      select ${n}::int as n, pg_backend_pid() as pid`,
    ),
  );
  assert.deepEqual(
    rows.map(([row]) => row?.n),
    Array.from({ length: 20 }, (_, n) => n),
  );
  assert.equal(new Set(rows.map(([row]) => row?.pid)).size, 1);
});

test('at most 32 reads wait for each other', async () => {
  let waiting: Promise<unknown> = Promise.resolve();
  await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(1)`;
    waiting = Promise.all(
      Array.from({ length: 32 }, () => sql.reads`select pg_advisory_xact_lock_shared(1)`.execute()),
    );
    const next = settles(backend(sql));
    await until(
      async () => next.isSettled,
      (is) => is,
    );
  });
  await waiting;
});

test('a read that fails does not fail the others', async () => {
  const [before, failed, after] = await Promise.allSettled([
    sql.reads`select 1`,
    sql.reads`select 1 / ${0}::int`,
    sql.reads`select 2`,
  ]);
  assert.deepEqual([before.status, failed.status, after.status], ['fulfilled', 'rejected', 'fulfilled']);
  assert.equal(((failed as PromiseRejectedResult).reason as { code: string }).code, '22012');
});

test('a read is executed again where its prepared statement has become stale, and those beside it too', async () => {
  await sql`create table changing (a int)`;
  await sql`insert into changing values (1)`;
  const one = openPool(address, { connections: 1, applicationName: 'reads' });
  try {
    const read = () => one.reads`select * from changing`;
    assert.deepEqual([...(await read())], [{ a: 1 }]);
    await sql`alter table changing add b int not null default 2`;
    const [changed, beside] = await Promise.all([read(), one.reads`select 3 as c`]);
    assert.deepEqual([...changed], [{ a: 1, b: 2 }]);
    assert.deepEqual([...beside], [{ c: 3 }]);
  } finally {
    await one.end();
  }
});

test('reads without a connection reject, and later ones find one', async () => {
  const closed = openPool(address, { connections: 1, applicationName: 'reads' });
  await backend(closed);
  await closed.end();
  await assert.rejects(backend(closed), { code: 'CONNECTION_ENDED' });
  const next = settles(assert.rejects(backend(closed), { code: 'CONNECTION_ENDED' }));
  await until(
    async () => next.isSettled,
    (is) => is,
  );
});

test('reads that wait for a busy pool are executed together when it has a connection', async () => {
  const one = openPool(address, { connections: 1, applicationName: 'reads' });
  try {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const busy = one.begin(async (tx) => {
      await tx`select 1`;
      await released;
    });
    const early = Promise.all(Array.from({ length: 40 }, () => backend(one)));
    await sql`select 1`;
    const late = backend(one);
    release();
    await busy;
    assert.equal((await early).length, 40);
    assert.equal((await late).length, 1);
  } finally {
    await one.end();
  }
});
