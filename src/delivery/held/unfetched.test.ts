import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dailyIdOf, dayOf } from '#kernel/ids.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { endUnfetched } from './queries.ts';

const SHARD = 7;
const idOf = (n: number): number => n * 256 + SHARD;
const [storeId, webhookId] = [idOf(1), idOf(2)];
const { sql } = await testDatabase();
const now = new Date();

await sql`
  insert into store (shard, id, name, domain, time_zone, email, date_created, date_modified)
  values (${SHARD}, ${storeId}, 'Shop', 'shop.example.com', 'UTC', 'shop@example.com', ${now}, ${now})`;
await sql`
  insert into webhook (shard, id, store_id, name, format, version, events, event_resource, is_active, is_held, listened_at, epoch,
    headers, retry_profile, date_created, date_modified)
  values (${SHARD}, ${webhookId}, ${storeId}, 'Laptop', 'partner_automation', '2', '{transaction/created}', 'transaction', true, true,
    ${now}, 2, '{}', 'hour', ${now}, ${now})`;

const deliveryOf = (n: number): number => dailyIdOf(dayOf(now), n, SHARD);

const hold = (n: number, epoch: number) => sql`
  insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
  values (${SHARD}, ${deliveryOf(n)}, ${storeId}, ${webhookId}, ${epoch}, ${deliveryOf(1)}, 'infinity')`;

test('a look for what nobody will fetch is as long as its limit, however much lives', async () => {
  await Promise.all([hold(10, 1), hold(11, 2), hold(12, 2), hold(13, 1)]);
  const end = (limit: number) => endUnfetched(sql, { shard: SHARD, webhookId }, limit, now);
  assert.equal(await end(2), 1, 'the oldest is dead');
  assert.equal(await end(2), 0, 'those that live are the limit');
  assert.equal(await end(3), 1, 'what stands behind them is found when they are fewer');
  const left = await sql<{ id: number }[]>`select id from delivery order by id`;
  assert.deepEqual(
    left.map(({ id }) => id),
    [11, 12].map(deliveryOf),
  );
});
