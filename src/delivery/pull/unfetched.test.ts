import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dailyIdOf, dayOf, startOfDay } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { endUnfetched } from './pull-deliveries-sql.ts';
import { Unfetched } from './pull-streams.ts';

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

const deliveryOf = (n: number, day = dayOf(now)): number => dailyIdOf(day, n, SHARD);

const hold = (id: number, epoch: number) => sql`
  insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
  values (${SHARD}, ${id}, ${storeId}, ${webhookId}, ${epoch}, ${deliveryOf(1)}, 'infinity')`;

const left = async (): Promise<number[]> =>
  (await sql<{ id: number }[]>`select id from delivery order by id`).map(({ id }) => id);

const opened = (unfetchedDays = 30) =>
  new Unfetched({ sql, clock: systemClock, log: createLog('error') }, { owns: () => true }, { unfetchedDays });

beforeEach(() => sql`delete from delivery`);

test('a check for unfetched deliveries reads at most its limit, and continues after the last one', async () => {
  await Promise.all([
    hold(deliveryOf(10), 1),
    hold(deliveryOf(11), 2),
    hold(deliveryOf(12), 2),
    hold(deliveryOf(13), 1),
  ]);
  const end = (limit: number, after = 0) =>
    endUnfetched(sql, { shard: SHARD, webhookId }, { after, limit, oldest: 0 }, now);
  assert.deepEqual(await end(2), { ended: 1, last: deliveryOf(11) }, 'the oldest has an earlier epoch');
  assert.deepEqual(await end(2), { ended: 0, last: deliveryOf(12) }, 'those of the current epoch are the limit');
  assert.deepEqual(await end(2, deliveryOf(12)), { ended: 1, last: deliveryOf(13) });
  assert.deepEqual(await end(2, deliveryOf(13)), { ended: 0, last: null });
  assert.deepEqual(
    await left(),
    [11, 12].map((n) => deliveryOf(n)),
  );
});

test('one request ends all deliveries of earlier epochs, however many, and nothing else', async () => {
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select ${SHARD}, ${deliveryOf(100)}::bigint + n * 256, ${storeId}, ${webhookId}, 1, ${deliveryOf(1)}, 'infinity'
    from generate_series(1, 5000) as n`;
  await hold(deliveryOf(9_000), 2);
  opened().end(SHARD, webhookId);
  assert.deepEqual(await until(left, ({ length }) => length <= 1), [deliveryOf(9_000)]);
});

test('a delivery held for longer than its days ends, so that its partition can be dropped', async () => {
  const today = dayOf(now);
  const [old, kept] = [deliveryOf(1, today - 3), deliveryOf(1, today - 1)];
  await maintainPartitions(sql, { now: startOfDay(today - 2), retentionDays: 30, daysAhead: 1 });
  await Promise.all([hold(old, 2), hold(kept, 2)]);
  opened(2).end(SHARD, webhookId);
  assert.deepEqual(await until(left, ({ length }) => length <= 1), [kept]);
  const ended = await sql<{ state: string }[]>`select state from delivery_done where shard = ${SHARD} and id = ${old}`;
  assert.deepEqual(
    ended.map(({ state }) => state),
    ['failed'],
  );
});
