/** The statements that sweep a lane by the thousand read the rows of their batch, and none after it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool } from '#db/pool.ts';
import { endOldEpochs, countFaults } from '#delivery/queue/queue-sql.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { testDatabase } from '../setup/database.ts';

const NOW = new Date();
const SHARD = 7;
const WORKER = 77;
const WEBHOOK = 256 + SHARD;
const FIRST = dailyIdOf(dayOf(NOW), 0, SHARD);
const ROWS = 10_000;
const DEAD = 3;
const BATCH = 20;
/** Beyond the five executions after which PostgreSQL keeps a generic plan. */
const EXECUTIONS = 7;

const WAYS = [
  ['', false],
  [' behind a pooler', true],
] as const;
for (const [where, isShared] of WAYS) {
  test(`a sweep of a long lane reads its batch alone${where}`, async (t) => {
    const { address } = await testDatabase(t);
    const sql = openPool(address, { connections: 1, applicationName: 'test-plans', isShared });
    await maintainPartitions(sql, { now: NOW, retentionDays: 30, daysAhead: 3 });
    await sql`update shard_lease set owner = ${WORKER}, fence = 1 where shard = ${SHARD}`;
    // Statistics of an empty table.
    await sql`alter table delivery set (autovacuum_enabled = false)`;
    await sql`vacuum analyze delivery`;
    // Due one after the other: a few of a disabled epoch, then many of the current one.
    await sql`
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select ${SHARD}, ${FIRST}::bigint + n * 256, ${WEBHOOK}, ${WEBHOOK}, (n > ${DEAD}::int)::int, ${FIRST}::bigint + n * 256,
        ${NOW}::timestamptz - interval '1 hour' + n * interval '1 ms'
      from generate_series(1, ${ROWS}::int) as n`;
    const rowsRead = async (): Promise<number> => {
      await sql`select pg_stat_force_next_flush()`;
      const [row] = await sql<{ n: number }[]>`
        select (seq_tup_read + idx_tup_fetch)::float8 as n from pg_stat_user_tables where relname = 'delivery'`;
      return row?.n ?? Number.NaN;
    };
    const of = { webhookId: WEBHOOK, limit: BATCH };
    const fenced = { shard: SHARD, fence: 1 };
    const sweeps = {
      dead: async () => (await endOldEpochs(sql, WORKER, fenced, { ...of, epoch: 1, from: new Date(0) }, NOW)).ended,
      hour: async () =>
        (await countFaults(sql, WORKER, fenced, { ...of, after: null, faults: 120, most: 8_640 }, NOW)).seen,
    };
    for (const [what, sweep] of Object.entries(sweeps)) {
      const swept: number[] = [];
      for (let execution = 0; execution < EXECUTIONS; execution += 1) {
        const before = await rowsRead();
        swept.push(await sweep());
        const read = (await rowsRead()) - before;
        // Each row twice: where it is found, and where it is changed.
        assert.ok(read <= 2 * BATCH, `${what}: ${read} rows`);
      }
      assert.deepEqual(swept, what === 'dead' ? [DEAD, 0, 0, 0, 0, 0, 0] : swept.map(() => BATCH));
    }
    await sql.end();
  });
}
