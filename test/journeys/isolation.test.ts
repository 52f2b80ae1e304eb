import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { standingClock } from '../setup/clock.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver, type Answerer, type Receiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

/** Of 16 slots 4 are for slow lanes, and 8 for new ones. One store and one origin may have them all. */
const settings = {
  slots: 16,
  overdraftSlots: 32,
  exchangeTimeoutMs: 60_000,
  storeSlotsPercent: 1_000,
  originSlotsPercent: 1_000,
};
const HANGING = 12;

/**
 * Every response of an endpoint counts as immediate, because a pause of the machine must not make a healthy one slow. An attempt
 * that hangs becomes slow by the ticks of the worker, not by its clock.
 */
const startOnStandingClock = () => startEngine({ clock: standingClock() });

const range = (count: number, from = 1): number[] => Array.from({ length: count }, (_, index) => from + index);
const never: Answerer = () => {};

const addWebhooks = async (engine: Engine, { url }: Receiver, count: number, storeId?: number): Promise<number[]> =>
  Promise.all(range(count).map((n) => engine.addWebhook(`${url}/${n}`, storeId === undefined ? {} : { storeId })));

const opened = (receiver: Receiver, count: number) =>
  until(
    async () => receiver.open(),
    (open) => open >= count,
  );

/** Publishes one event after another, each when the one before it was answered. */
async function publishInTurn(engine: Engine, worker: Awaited<ReturnType<Engine['startWorker']>>, receiver: Receiver) {
  for (const id of range(10, 100)) {
    const before = receiver.got.length;
    await engine.publish([id], worker);
    await receiver.until(before + 1);
  }
}

test('webhooks that failed before a restart wait for each other, and no other webhook waits for them', async () => {
  const engine = await startOnStandingClock();
  const [hanging, healthy] = [await startReceiver(), await startReceiver()];
  hanging.answer(never);
  await addWebhooks(engine, hanging, HANGING);
  await engine.sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
    select shard, id, epoch, 3, now() from webhook`;
  await engine.addWebhook(healthy.url);
  const worker = await engine.startWorker(settings);
  await publishInTurn(engine, worker, healthy);
  await opened(hanging, 4);
  await publishInTurn(engine, worker, healthy);
  assert.equal(hanging.got.length, 4);
});

test('webhooks that all begin to hang leave slots for the others', async () => {
  const engine = await startOnStandingClock();
  const [hanging, healthy] = [await startReceiver(), await startReceiver()];
  await addWebhooks(engine, hanging, 20);
  await engine.addWebhook(healthy.url);
  const worker = await engine.startWorker(settings);
  await engine.publish([1], worker);
  await Promise.all([hanging.until(20), healthy.until(1)]);
  hanging.answer(never);
  await engine.publish([2], worker);
  // More webhooks than slots, one slot each: a lane that turned slow is over its quota and gets no second one.
  await opened(hanging, 20);
  await publishInTurn(engine, worker, healthy);
  assert.equal(hanging.open(), 20);
});

test('new endpoints that never answer leave slots for fast ones', async () => {
  const engine = await startOnStandingClock();
  const [hanging, healthy] = [await startReceiver(), await startReceiver()];
  await engine.addWebhook(healthy.url);
  const worker = await engine.startWorker({ ...settings, slowAfterMs: 600_000 });
  await engine.publish([1], worker);
  await healthy.until(1);
  hanging.answer(never);
  await addWebhooks(engine, hanging, 20);
  await publishInTurn(engine, worker, healthy);
  // A quick machine answers the ten before a connection to the others is open.
  await opened(hanging, 8);
  await publishInTurn(engine, worker, healthy);
  assert.equal(hanging.got.length, 8);
});

test('after a take-over fast webhooks do not wait for new ones, however many of these hang', async () => {
  const engine = await startOnStandingClock();
  const [hanging, healthy] = [await startReceiver(), await startReceiver()];
  hanging.answer(never);
  // Older, and more than are filled at once, so that they are found and filled before the other.
  await addWebhooks(engine, hanging, 300);
  await engine.sql`update webhook set is_active = false`;
  await engine.addWebhook(healthy.url);
  const first = await engine.startWorker(settings);
  await engine.publish([1], first);
  await engine.recorded(1);
  await first.stop();
  await engine.sql`update webhook set is_active = true`;
  await engine.publish([2]);
  const next = await engine.startWorker({ ...settings, slowAfterMs: 250 });
  await until(
    async () => healthy.got.length,
    (count) => count === 2,
  );
  // The whole quota of slow lanes; more of them wait.
  await opened(hanging, 36);
  await publishInTurn(engine, next, healthy);
  assert.equal(hanging.got.length, 36);
});

test('a store is limited to its share of the slots, and another store does not wait for it', async () => {
  const engine = await startOnStandingClock();
  const [large, other] = [await startReceiver(), await startReceiver()];
  large.answer(never);
  await addWebhooks(engine, large, 6);
  const otherStore = await engine.addStore();
  await engine.addWebhook(other.url, { storeId: otherStore });
  const worker = await engine.startWorker({ ...settings, storeSlotsPercent: 25 });
  await engine.publish([1], worker);
  await opened(large, 4);
  await engine.publish([2], worker, otherStore);
  await other.until(1);
  assert.equal(large.got.length, 4);
});

test('an origin is limited to its share of the slots over all stores, and other origins do not wait for it', async () => {
  const engine = await startOnStandingClock();
  const [origin, other] = [await startReceiver(), await startReceiver()];
  origin.answer(never);
  const stores = [engine.storeId, await engine.addStore(), await engine.addStore()];
  for (const storeId of stores) await addWebhooks(engine, origin, 2, storeId);
  for (const storeId of stores) await engine.addWebhook(other.url, { storeId });
  const worker = await engine.startWorker({ ...settings, originSlotsPercent: 25 });
  for (const storeId of stores) await engine.publish([1], worker, storeId);
  await Promise.all([opened(origin, 4), other.until(3)]);
  for (const storeId of stores) await engine.publish([2], worker, storeId);
  await other.until(6);
  assert.equal(origin.got.length, 4);
});

test('a first attempt goes before many retries that have waited longer', async () => {
  const FLOOD = 60;
  const engine = await startOnStandingClock();
  const [retried, fresh] = [await startReceiver(), await startReceiver()];
  const answers: (() => void)[] = [];
  retried.answer((_got, response) => void answers.push(() => response.writeHead(204).end()));
  await addWebhooks(engine, retried, FLOOD);
  await engine.publish([1]);
  await engine.sql`update delivery set attempts = 1`;
  const otherStore = await engine.addStore();
  await engine.addWebhook(fresh.url, { storeId: otherStore });
  const worker = await engine.startWorker({ ...settings, slowAfterMs: 600_000 });
  await opened(retried, 8);
  await engine.publish([2], worker, otherStore);
  // Retries free slots one by one, until the first attempt takes one: its webhook must be read before.
  const landed = () => retried.got.length + fresh.got.length;
  for (let answered = 0; fresh.got.length === 0; answered += 1) {
    answers[answered]?.();
    await until(
      async () => landed(),
      (count) => count > 8 + answered,
    );
  }
  assert.ok(retried.got.length < FLOOD, `all ${FLOOD} retries went before it`);
});

test('a webhook gets more concurrent exchanges when it needs them, up to the limit of one webhook', async () => {
  const engine = await startOnStandingClock();
  const receiver = await startReceiver();
  const waiting: ServerResponse[] = [];
  let most = 0;
  receiver.answer((_got, response) => {
    most = Math.max(most, receiver.open());
    waiting.push(response);
  });
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker({ slotsPerLane: 4 });
  await engine.publish(range(60), worker);
  await receiver.until(1);
  // As many arrive as are answered, and one more as long as the limit grows.
  for (let round = 0; round < 10; round += 1) {
    const answered = waiting.splice(0);
    const before = receiver.got.length;
    for (const response of answered) response.writeHead(204).end();
    await receiver.until(before + answered.length);
  }
  await opened(receiver, 4);
  receiver.answer((_got, response) => {
    most = Math.max(most, receiver.open());
    response.writeHead(204).end();
  });
  for (const response of waiting) response.writeHead(204).end();
  await receiver.until(60);
  assert.equal(most, 4);
});
