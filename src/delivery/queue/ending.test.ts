/** What ends without an attempt: deliveries of old epochs and of unusable webhooks, in batches, and only by the shard owner. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { countFaults, endOldEpochs, type Position } from './queue-sql.ts';

const FENCE = 5;

test('only the shard owner ends deliveries of old epochs, in batches that continue where the last ended', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const webhookId = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(webhookId);
  await sql`update shard_lease set owner = 7, fence = ${FENCE} where shard = ${shard}`;
  await engine.publish([1, 2, 3]);
  await sql`update webhook set epoch = 1 where shard = ${shard} and id = ${webhookId}`;
  await engine.publish([4]);
  const dead = { webhookId, epoch: 1, from: new Date(0), limit: 2 };
  const now = new Date();
  assert.equal((await endOldEpochs(sql, 7, { shard, fence: FENCE - 1 }, dead, now)).ended, 0);
  assert.equal((await endOldEpochs(sql, 8, { shard, fence: FENCE }, dead, now)).ended, 0);
  const first = await endOldEpochs(sql, 7, { shard, fence: FENCE }, dead, now);
  const second = await endOldEpochs(sql, 7, { shard, fence: FENCE }, { ...dead, from: first.dueAt ?? now }, now);
  assert.deepEqual([first.ended, second.ended], [2, 1]);
  assert.equal((await endOldEpochs(sql, 7, { shard, fence: FENCE }, dead, now)).ended, 0);
  const left = await sql<{ epoch: number }[]>`select epoch from delivery where webhook_id = ${webhookId}`;
  assert.deepEqual(
    left.map(({ epoch }) => epoch),
    [1],
  );
  // A deleted webhook has no current epoch.
  const gone = { ...dead, epoch: Number.POSITIVE_INFINITY };
  assert.equal((await endOldEpochs(sql, 7, { shard, fence: FENCE }, gone, now)).ended, 1);
});

test('only the shard owner counts a fault, once per due delivery, and not for one that is about to end', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const webhookId = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(webhookId);
  await sql`update shard_lease set owner = 7, fence = ${FENCE} where shard = ${shard}`;
  await engine.publish([1, 2, 3, 4, 5]);
  const now = new Date();
  // Due now, to the microsecond: the cursor continues by id.
  await sql`update delivery set due_at = ${now}::timestamptz - interval '999 us'`;
  await sql`update delivery set due_at = ${now}::timestamptz + interval '1 second' where id = (select max(id) from delivery)`;
  await sql`update delivery set faults = 12 where id = (select min(id) from delivery)`;
  const hour = { webhookId, after: null, faults: 3, most: 12, limit: 3 };
  const count = (worker: number, fence: number, after: Position | null) =>
    countFaults(sql, worker, { shard, fence }, { ...hour, after }, now);
  assert.equal((await count(7, FENCE - 1, null)).seen, 0);
  assert.equal((await count(8, FENCE, null)).seen, 0);
  const first = await count(7, FENCE, null);
  const second = await count(7, FENCE, first.last);
  const third = await count(7, FENCE, second.last);
  assert.deepEqual([first.seen, second.seen, third.seen], [3, 1, 0]);
  const rows = await sql<{ faults: number }[]>`select faults from delivery order by id`;
  assert.deepEqual(
    rows.map(({ faults }) => faults),
    [12, 3, 3, 3, 0],
  );
});
