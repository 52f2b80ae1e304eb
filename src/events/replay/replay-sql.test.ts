import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dailyIdOf, dayOf, idOf } from '#core/ids.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { findPending } from './replay-sql.ts';

const SHARD = 7;
const [storeId, webhookId] = [idOf(1, SHARD), idOf(2, SHARD)];
const now = new Date();
const at = (n: number): number => dailyIdOf(dayOf(now), n, SHARD);

test('the pending delivery of an event is searched among a limited number of the first due ones, in the current epoch', async () => {
  const { sql } = await testDatabase();
  for (const [n, epoch] of [[1, 1] as const, [2, 2] as const, [3, 2] as const])
    await sql`
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      values (${SHARD}, ${at(n)}, ${storeId}, ${webhookId}, ${epoch}, ${at(100 + n)}, ${new Date(now.getTime() + n)})`;
  const find = (n: number, limit: number) =>
    findPending(sql, { shard: SHARD, webhookId, eventId: at(100 + n), epoch: 2 }, limit);
  assert.deepEqual(
    [await find(1, 9), await find(2, 2), await find(3, 2), await find(3, 3)],
    [undefined, at(2), undefined, at(3)],
  );
});
