/** More webhooks with a backlog than there are lanes in memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const WEBHOOKS = 6;
const LANES = 2;

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
