import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { dayOf, dayOfId, firstIdOfDay, NUMBERS_A_DAY, shardOf, startOfDay } from '#core/ids.ts';
import { emptyDatabase, testDatabase } from '../../test/setup/database.ts';
import { migrate, MIGRATIONS, migrationsIn } from './migrate.ts';
import { isOutOfNumbers, nextDeliveryId, nextEventBlock, readUsedNumbers } from './numbers.ts';
import { maintainPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';

const TODAY = dayOf(new Date());

async function nextId(sql: Sql, day: number): Promise<number> {
  const [row] = await sql<{ id: number }[]>`select ${nextDeliveryId(sql, day, sql`${7}::smallint`)} as id`;
  assert.ok(row !== undefined);
  return row.id;
}

test('a day has ids up to its last number, then an error; the next day starts with its own', async (t) => {
  const { sql } = await testDatabase(t);
  const day = 9_001;
  await maintainPartitions(sql, { now: startOfDay(day), retentionDays: 10_000, daysAhead: 1 });
  await sql`select setval(${`delivery_n_d${day}`}::regclass, ${NUMBERS_A_DAY - 2}::bigint)`;
  const last = await nextId(sql, day);
  assert.deepEqual([dayOfId(last), dayOfId(last + 256), shardOf(last)], [day, day + 1, 7]);
  assert.equal((await readUsedNumbers(sql, day)).get('delivery'), (NUMBERS_A_DAY - 1) / NUMBERS_A_DAY);
  await assert.rejects(nextId(sql, day), isOutOfNumbers);
  assert.equal(await nextId(sql, day + 1), firstIdOfDay(day + 1) + 7);
});

test('days whose tables existed before the upgrade get numbers that the earlier version does not reach', async (t) => {
  const { sql } = await emptyDatabase(t);
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-migrations-'));
  t.after(() => rm(folder, { recursive: true }));
  for (const { name, version } of await migrationsIn(MIGRATIONS))
    if (version < 12) await cp(join(MIGRATIONS, name), join(folder, name));
  await migrate(sql, folder);
  for (const parent of ['event', 'delivery_done'])
    await sql.unsafe(`create table ${parent}_d${TODAY} partition of ${parent} for values from (0) to (1000000)`);
  await sql`select setval('event_n', 4096), setval('delivery_n', ${NUMBERS_A_DAY - 1_000}::bigint)`;
  await migrate(sql, MIGRATIONS);
  assert.equal(await nextEventBlock(sql, TODAY), 4_096 + NUMBERS_A_DAY / 4);
  assert.equal(dayOfId(await nextId(sql, TODAY)), TODAY);
});
