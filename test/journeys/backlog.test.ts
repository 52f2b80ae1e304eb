/** More webhooks with a backlog than there are lanes in memory, and a backlog that ends while its webhook is enabled again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { dailyIdOf, shardOf } from '#core/ids.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const WEBHOOKS = 6;
const LANES = 2;

// More webhooks than lanes

test('pending deliveries of more webhooks than there are lanes are each sent once', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  for (let n = 0; n < WEBHOOKS; n += 1) await engine.addWebhook(`${receiver.url}/${n}`);
  await engine.publish([1, 2]);
  await engine.startWorker({ heldLanes: LANES });
  await until(
    () => engine.sql`select from delivery`,
    ({ length }) => length === 0,
  );
  const sent = receiver.got.map(({ path, body }) => `${path} ${body.toString()}`);
  assert.equal(sent.length, 2 * WEBHOOKS);
  assert.equal(new Set(sent).size, sent.length);
});

test('a new event does not wait for webhooks with a backlog, even if no lane is left', async () => {
  const engine = await startEngine();
  const [hanging, receiver] = [await startReceiver(), await startReceiver()];
  hanging.answer(() => {});
  for (let n = 0; n < WEBHOOKS; n += 1) await engine.addWebhook(`${hanging.url}/${n}`);
  await engine.publish([1]);
  const worker = await engine.startWorker({ heldLanes: LANES, exchangeTimeoutMs: 60_000 });
  await until(
    async () => hanging.open(),
    (open) => open === LANES,
  );
  await engine.addWebhook(receiver.url);
  await engine.publish([2], worker);
  await receiver.until(1);
  assert.equal(receiver.got.length, 1);
});

test('an endpoint whose last attempt succeeded gets a slot, however many hanging endpoints are found before it', async () => {
  const engine = await startEngine();
  const [hanging, receiver] = [await startReceiver(), await startReceiver()];
  hanging.answer(() => {});
  for (let n = 0; n < WEBHOOKS; n += 1) await engine.addWebhook(`${hanging.url}/${n}`);
  await engine.sql`update webhook set is_active = false`;
  await engine.addWebhook(receiver.url);
  const first = await engine.startWorker();
  await engine.publish([1], first);
  await engine.recorded(1);
  await first.stop();
  await engine.sql`update webhook set is_active = true`;
  await engine.publish([2]);
  await engine.startWorker({ heldLanes: 2 * LANES, exchangeTimeoutMs: 60_000 });
  await until(
    async () => receiver.got.length,
    (count) => count === 2,
  );
  assert.ok(hanging.got.length < 2 * LANES, `${hanging.got.length} hanging webhooks have slots`);
});

// Enabling

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
