import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { loadEvents } from '#delivery/delivery-sql.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

/** Far more than the maximum depth of the call stack. */
const BACKLOG = 5_000;

test('a queue of deliveries that end without being sent is processed, however long', async () => {
  const engine = await startEngine({ log: createLog('silent') });
  const receiver = await startReceiver();
  // With a query, so that the body is read before it is sent.
  const webhookId = await engine.addWebhook(receiver.url, { query: 'fields=id' });
  const shard = shardOf(webhookId);
  const worker = await engine.startWorker({ laneQueue: BACKLOG, unrecordedLimit: 2 * BACKLOG });
  await until(
    async () => worker.ownedShards().length,
    (count) => count === 256,
  );
  const [published] = await engine.publish([1], worker);
  await until(
    () => engine.sql`select from delivery`,
    ({ length }) => length === 0,
  );
  const [event] = await loadEvents(engine.sql, [{ storeId: engine.storeId, eventId: published?.id ?? 0 }]);
  assert.ok(event !== undefined);
  const now = new Date();
  const broken = { ...event, body: '{' };
  const pending = Array.from({ length: BACKLOG }, (_, n) => ({
    shard,
    delivery: {
      id: dailyIdOf(dayOf(now), 1_000_000 + n, shard),
      storeId: engine.storeId,
      webhookId,
      epoch: 0,
      eventId: event.id,
      attempts: 0,
      faults: 0,
      dueAt: now,
    },
    event: broken,
  }));
  assert.doesNotThrow(() => worker.offer(pending));
  assert.equal(receiver.got.length, 1);
});
