import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { singleDatabase, testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { openPool, transaction, useOf } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const { address } = await testDatabase();

test('statements, transactions and reserved connections are counted only while they last', async (t) => {
  const sql = openPool(address, { connections: 2, applicationName: 'test' });
  t.after(() => sql.end({ timeout: 0 }));
  const { promise: release, resolve } = Promise.withResolvers<void>();
  const use = () => useOf(sql);
  assert.deepEqual(use(), { connections: 2, busy: 0, waiting: 0, refusedForSpace: 0 });

  const held = transaction(sql, async (tx) => {
    await tx`select 1`;
    await release;
  });
  const reserved = await sql.reserve();
  await until(
    async () => use(),
    ({ busy }) => busy === 2,
  );
  const waiting = Promise.all([
    sql`select 1`,
    sql`select 2 where ${sql`true`}`,
    transaction(sql, (tx) => tx`select 3`),
  ]);
  await until(
    async () => use(),
    (seen) => seen.waiting === 3,
  );
  assert.equal(use().busy, 2);
  resolve();
  reserved.release();
  await Promise.all([held, waiting]);
  assert.deepEqual(use(), { connections: 2, busy: 0, waiting: 0, refusedForSpace: 0 });
});

test('a failed statement is no longer counted either', async (t) => {
  const sql = openPool(address, { connections: 1, applicationName: 'test' });
  t.after(() => sql.end({ timeout: 0 }));
  await assert.rejects(sql`select 1 / 0`, { code: '22012' });
  await assert.rejects(
    transaction(sql, async (tx) => {
      await tx`select 1`;
      throw new RangeError();
    }),
    RangeError,
  );
  assert.deepEqual(useOf(sql), { connections: 1, busy: 0, waiting: 0, refusedForSpace: 0 });
});

for (const [title, limit] of [
  ['the role', (role: string) => `alter role ${role} connection limit 3`],
  ['the database', (_role: string, database: string) => `alter database ${database} connection limit 3`],
] as const)
  test(`statements wait for the open connections while ${title} allows no more, and the reason is reported once`, async () => {
    const ends = cleanups();
    const { sql: admin, address: at } = await singleDatabase(ends);
    assert.ok(at.kind === 'socket');
    const role = `limited_${at.database}`;
    await admin.unsafe(`create role ${role} login password 'x'; ${limit(role, at.database)}`);
    ends.after(async () => void (await admin.unsafe(`drop role ${role}`)));
    const refused: Error[] = [];
    const sql = openPool(
      { ...at, user: role, password: 'x' },
      { connections: 10, applicationName: 'test', onRefused: (error) => refused.push(error) },
    );
    ends.after(() => sql.end({ timeout: 0 }));
    const first = await Promise.all([sql.reserve(), sql.reserve()]);
    const answers = Promise.allSettled(
      Array.from({ length: 200 }, async (_, n) =>
        n % 2 === 0 ? sql`select 1` : transaction(sql, (tx) => tx`select 1`),
      ),
    );
    await until(
      async () => refused.length,
      (count) => count > 0,
    );
    for (const reserved of first) reserved.release();
    assert.ok((await answers).every(({ status }) => status === 'fulfilled'));
    assert.deepEqual(
      refused.map((error) => (error as NodeJS.ErrnoException).code),
      ['53300'],
    );
    await admin.unsafe(`alter role ${role} connection limit -1; alter database ${at.database} connection limit -1`);
    // The pool grows again by itself.
    const all = await Promise.all(Array.from({ length: 10 }, () => sql.reserve()));
    for (const reserved of all) reserved.release();
  });

test('a pool without an open connection rejects, also if the server only refuses further ones', async () => {
  const ends = cleanups();
  const { sql: admin, address: at } = await singleDatabase(ends);
  assert.ok(at.kind === 'socket');
  const role = `limited_${at.database}`;
  await admin.unsafe(`create role ${role} login password 'x' connection limit 0`);
  ends.after(async () => void (await admin.unsafe(`drop role ${role}`)));
  const sql = openPool({ ...at, user: role, password: 'x' }, { connections: 10, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  const answers = await Promise.allSettled(Array.from({ length: 50 }, async () => sql`select 1`));
  assert.ok(answers.every((answer) => answer.status === 'rejected' && isUnavailable(answer.reason)));
});
