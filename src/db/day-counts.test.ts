import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayOf } from '#core/ids.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { countDays } from './day-counts.ts';

const { sql } = await testDatabase();
const DAY_MS = 86_400_000;

test('days of shards that another database owns are not counted', async () => {
  await sql`delete from shard_lease where shard = 6`;
  const now = new Date();
  const first = dayOf(new Date(now.getTime() - 5 * DAY_MS));
  await countDays(sql, { shards: [5, 6, 7], first, now, mayContinue: () => true });
  const rows = await sql<{ shard: number }[]>`select distinct shard from day_count order by shard`;
  assert.deepEqual(
    rows.map(({ shard }) => shard),
    [5, 7],
  );
});
