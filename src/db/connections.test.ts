import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { openPool, transaction, useOf } from './pool.ts';

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
