import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { createMissing, keepPartitions } from './partitions.ts';

const [SHARD, STORE] = [7, 263];
const MINUTE_MS = 60_000;

test('a minute after the start the rows of ended days are counted', async () => {
  const { sql } = await testDatabase();
  const day = dayOf(new Date()) - 3;
  await createMissing(sql, day, 6);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url, date_created, body)
    values (${SHARD}, ${dailyIdOf(day, 1, SHARD)}, ${STORE}, 'transaction', '1', 'created', 1, 1, 'UTC', '', now(), '{}')`;
  mock.timers.enable({ apis: ['setTimeout'] });
  const keeper = await keepPartitions({ direct: sql, clock: systemClock, log: createLog('silent'), retentionDays: 30 });
  mock.timers.tick(MINUTE_MS);
  // Only the timer of the keeper had to pass; statements and `until` need the real ones.
  mock.timers.reset();
  const counted = () =>
    sql<{ list: string; rows: number }[]>`select list, rows from day_count where owner_id = ${STORE}`;
  assert.deepEqual([...(await until(counted, ({ length }) => length > 0))], [{ list: 'event', rows: 1 }]);
  await keeper.stop();
  await sql.end();
});
