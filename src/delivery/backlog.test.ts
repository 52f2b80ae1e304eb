import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { dailyIdOf, dayOf, SHARDS } from '#core/ids.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { readBacklog } from './queue/queue-sql.ts';

const NOW = new Date();
const MINUTE_MS = 60_000;
const LONG = 30_000;
const { address } = await testDatabase();
/** One connection, whose statistics are those of the statement just sent. */
const sql = openPool(address, { connections: 1, applicationName: 'test-backlog' });

/** Adds deliveries of a webhook, the first of which is due for so many minutes. */
async function addDue(number: number, minutes: number, count = 1): Promise<void> {
  const shard = number % SHARDS;
  const first = dailyIdOf(dayOf(NOW), number < SHARDS ? 0 : LONG, shard);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select ${shard}, ${first}::bigint + n * 256, 256 + ${number}, 256 + ${number}, 0, ${first}::bigint + n * 256,
      ${new Date(NOW.getTime() - minutes * MINUTE_MS)}::timestamptz + n * interval '1 ms'
    from generate_series(0, ${count - 1}::int) as n`;
}

async function addWebhook(number: number, { isActive = true, ratePerSecond = null as number | null } = {}) {
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${number % SHARDS}, ${256 + number}, 'Store', 's.example', '', 'UTC', ${NOW}, ${NOW})`;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, encryption_key, events, is_active, headers, rate_per_second, retry_profile,
      date_created, date_modified)
    values (${number % SHARDS}, ${256 + number}, ${256 + number}, 'Webhook', 'json', '2', 'key', '{}', ${isActive}, '{}', ${ratePerSecond}, 'hour',
      ${NOW}, ${NOW})`;
}

const rowsRead = async (): Promise<number> => {
  await sql`select pg_stat_force_next_flush()`;
  const [row] = await sql<{ n: number }[]>`
    select (seq_tup_read + idx_tup_fetch)::float8 as n from pg_stat_user_tables where relname = 'delivery'`;
  return row?.n ?? Number.NaN;
};

test('a backlog is that of the webhooks whose endpoints do not delay it, and a long one is not counted', async (t) => {
  t.after(() => sql.end());
  for (const number of [1, 2, 3, 4])
    await addWebhook(number, { isActive: number !== 3, ratePerSecond: number === 4 ? 1 : null });
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at) values (2, 258, 0, 1, ${NOW})`;
  await addDue(1, 2);
  await addDue(2, 30);
  await addDue(3, 40);
  await addDue(4, 50);
  await addDue(1 + 4, -5);
  const dueSince = new Date(NOW.getTime() - 2 * MINUTE_MS);
  const states = { due: 1, dueSince, held: 2, ended: 1 };
  assert.deepEqual(await readBacklog(sql, NOW, 2), { pending: 5, isEstimate: false, ...states });
  await addDue(2 + 4, 60, LONG);
  await addWebhook(2 + 4);
  await sql`select pg_stat_force_next_flush()`;
  const before = await rowsRead();
  const { pending, isEstimate, due } = await readBacklog(sql, NOW, 2);
  const read = (await rowsRead()) - before;
  assert.deepEqual([pending, isEstimate, due], [LONG + 5, true, 2]);
  assert.ok(read <= 10_000 + 100, `${read} rows`);
  await addWebhook(1 + SHARDS);
  await addDue(1 + SHARDS, 70);
  const dueIn = async (webhooksPerShard: number) => (await readBacklog(sql, NOW, webhooksPerShard)).due;
  assert.deepEqual([await dueIn(1), await dueIn(2)], [2, 3]);
});
