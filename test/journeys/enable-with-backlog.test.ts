/** A webhook is enabled again while many deliveries of the time before are still to be ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { dailyIdOf, shardOf } from '#core/ids.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

/** More than the memory holds of a webhook, and than one statement ends. */
const DEAD = 2_500;

test('deliveries that a disable failed delay no delivery after the enable', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  // One a second: as attempts they would take forty minutes.
  const webhookId = await engine.addWebhook(receiver.url, { ratePerSecond: 1 });
  await engine.publish(Array.from({ length: DEAD }, (_, n) => n));
  await sql`update webhook set epoch = epoch + 1 where shard = ${shardOf(webhookId)} and id = ${webhookId}`;
  await engine.publish([DEAD]);
  await engine.startWorker();
  const pending = async () => (await sql`select from delivery where webhook_id = ${webhookId}`).length;
  const left = await until(pending, (count) => count === 0).catch(pending);
  assert.equal(left, 0);
  assert.deepEqual(
    receiver.got.map(({ body }) => (JSON.parse(body.toString()) as { id: number }).id),
    [DEAD],
  );
  const ended = await sql<{ summary: string }[]>`
    select state || ' ' || attempts || ' ' || count(*) as summary from delivery_done where webhook_id = ${webhookId}
    group by state, attempts order by 1`;
  assert.deepEqual(
    ended.map(({ summary }) => summary),
    [`failed 0 ${DEAD}`, 'successful 1 1'],
  );
});

test('deliveries whose day was dropped are ended as well, however many', async () => {
  // Each of them is logged.
  const engine = await startEngine({ log: createLog('silent') });
  const { sql, storeId } = engine;
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  const shard = shardOf(webhookId);
  const first = dailyIdOf(1, 0, shard);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select ${shard}, ${first}::bigint + 256 * n, ${storeId}, ${webhookId}, -1, ${first}, 3, now() - interval '1 minute'
    from generate_series(1, 200) as n`;
  await engine.publish([1]);
  await engine.startWorker();
  const pending = async () => (await sql`select from delivery where webhook_id = ${webhookId}`).length;
  await until(pending, (count) => count === 0);
  assert.equal(receiver.got.length, 1);
});
