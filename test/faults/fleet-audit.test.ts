/** The audit of a fleet detects each kind of write by a worker that does not own the shard. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool, type Queryable, type Sql } from '#db/pool.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { startAudit, strangeWrites } from '../setup/fleet/audit.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';

const SHARD = 7;

/** Two workers that took the shard one after the other; `first` has fencing token 1, `second` takes it with token 2. */
async function openFixture(ends: Cleanups) {
  const { sql, address } = await testDatabase(ends);
  await startAudit(sql);
  const sessionOf = (applicationName: string): Sql => {
    const session = openPool(address, { connections: 2, applicationName });
    ends.after(() => session.end({ timeout: 0 }));
    return session;
  };
  const first = { id: 1, sql: sessionOf('l1') };
  const second = { id: 2, sql: sessionOf('l2') };
  const take = (by: typeof first) =>
    by.sql`update shard_lease set owner = ${by.id}, fence = fence + 1 where shard = ${SHARD}`;
  return { sql, first, second, take };
}

let n = 0;
const write = (sql: Queryable) => sql`
  insert into webhook_state (shard, webhook_id, epoch, consecutive_failures) values (${SHARD}, ${(n += 1)}, 0, 0)`;

const strange = async (sql: Sql) => (await strangeWrites(sql)).map(({ session, ruled }) => `${session}: ${ruled}`);

test('writes of an owner under its lease are accepted, before and after a take-over', async () => {
  const { sql, first, second, take } = await openFixture(cleanups());
  await take(first);
  await write(first.sql);
  await take(second);
  await write(second.sql);
  assert.deepEqual(await strange(sql), []);
});

test('a write that reads an old lease and commits after a take-over is detected', async () => {
  const { sql, first, second, take } = await openFixture(cleanups());
  await take(first);
  await first.sql.begin(async (tx) => {
    await write(tx);
    // Without the lock on the lease the other worker can take it now.
    await take(second);
  });
  assert.deepEqual(await strange(sql), ['l1: owner 2, fence 2']);
});

test('a take-over waits for a write that holds the lock of the lease', async () => {
  const { sql, first, second, take } = await openFixture(cleanups());
  await take(first);
  const taking = await first.sql.begin(async (tx) => {
    await tx`select from shard_lease where shard = ${SHARD} for share`;
    // Wrapped in an object: an async function would wait for the promise forever.
    const waiting = { taken: take(second).execute() };
    await until(
      () => waitingForLocks(sql),
      (count) => count === 1,
    );
    await write(tx);
    return waiting;
  });
  await taking.taken;
  assert.deepEqual(await strange(sql), []);
});

test('a write after the shard was handed back, and one by a worker that never owned it, are detected', async () => {
  const { sql, first, second, take } = await openFixture(cleanups());
  await take(first);
  await write(second.sql);
  await first.sql`update shard_lease set owner = null where shard = ${SHARD}`;
  await write(first.sql);
  assert.deepEqual(await strange(sql), ['l2: owner 1, fence 1', 'l1: owner , fence 1']);
});
