import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayOfId, firstIdOfDay, NUMBERS_A_DAY, shardOf, startOfDay } from '#core/ids.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { nextDeliveryId, readUsedNumbers, maintainPartitions } from './partitions.ts';
import { isOutOfNumbers } from './unavailable.ts';
import type { Sql } from './pool.ts';

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
