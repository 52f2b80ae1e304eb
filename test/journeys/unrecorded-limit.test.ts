import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const UNRECORDED = 20;
const AT_ONCE = 8;
/** The number of checks whether it continues, in 0.8 s; without the limit all 500 arrive in less. */
const PATIENCE = 25;

test('sending pauses while too many outcomes are unrecorded, and resumes by itself', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker({ unrecordedLimit: UNRECORDED, slotsPerLane: AT_ONCE });
  await until(
    async () => worker.ownedShards().length,
    (count) => count === 256,
  );
  const holder = await engine.sql.reserve();
  await holder`begin`;
  await holder`select from shard_lease where shard = ${shardOf(webhookId)} for update`;
  await engine.publish(
    Array.from({ length: 500 }, (_, index) => index + 1),
    worker,
  );
  let asked = 0;
  await until(
    async () => (asked += receiver.got.length < UNRECORDED ? 0 : 1),
    (count) => count > PATIENCE,
  );
  assert.ok(receiver.got.length <= UNRECORDED + AT_ONCE, `${receiver.got.length} were sent`);
  await holder`rollback`;
  holder.release();
  await receiver.until(500);
});
