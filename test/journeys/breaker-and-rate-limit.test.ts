import assert from 'node:assert/strict';
import { test } from 'node:test';
import { standingClock } from '../setup/clock.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver, type Receiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

/** The state of the webhook that was created first: those that `meanwhile` creates may have a state, too. */
async function stateOf({ sql }: Engine) {
  const [row] = await sql<{ failures: number; probeAt: Date | null; pending: number; charged: number }[]>`
    select consecutive_failures as failures, probe_at as "probeAt", (select count(*) from delivery) as pending,
      (select count(*) from delivery where attempts > 0) as charged
    from webhook_state where webhook_id = (select min(id) from webhook)`;
  return row ?? { failures: 0, probeAt: null, pending: 0, charged: 0 };
}

/** Resolves when the breaker of an endpoint that refuses, with many deliveries, is open. */
async function startDead(): Promise<{ engine: Engine; receiver: Receiver }> {
  const engine = await startEngine({ clock: standingClock() });
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(500).end());
  await engine.addWebhook(receiver.url);
  await engine.publish(range(20));
  return { engine, receiver };
}

/** Waits until a later event has arrived elsewhere, so that the worker had time to send more. */
async function meanwhile(engine: Engine, worker: Parameters<Engine['publish']>[1]): Promise<void> {
  const other = await startReceiver();
  const storeId = await engine.addStore();
  await engine.addWebhook(other.url, { storeId });
  await engine.publish([1], worker, storeId);
  await other.until(1);
}

test('after five failures a failing endpoint is probed ever more rarely, and waiting deliveries are charged no attempt', async () => {
  const { engine, receiver } = await startDead();
  const worker = await engine.startWorker();
  await until(
    () => stateOf(engine),
    ({ failures }) => failures === 5,
  );
  let seen = 5;
  for (const [seconds, probes] of [
    [9, 0],
    [2, 1],
    [18, 0],
    [3, 1],
  ] as const) {
    engine.clock.advance(seconds * 1_000);
    seen += probes;
    await until(
      () => stateOf(engine),
      ({ failures }) => failures === seen,
    );
    await meanwhile(engine, worker);
    assert.equal(receiver.got.length, seen, `${seconds} s later`);
  }
  assert.equal((await stateOf(engine)).charged, 7);
});

test('a probe that succeeds closes the breaker, and waiting deliveries are sent at once', async () => {
  const { engine, receiver } = await startDead();
  await engine.startWorker();
  await until(
    () => stateOf(engine),
    ({ failures }) => failures === 5,
  );
  receiver.answer((_got, response) => response.writeHead(204).end());
  engine.clock.advance(11_000);
  await receiver.until(20);
  const state = await until(
    () => stateOf(engine),
    ({ pending }) => pending === 5,
  );
  assert.deepEqual(state, { failures: 0, probeAt: null, pending: 5, charged: 5 });
});

test('an endpoint that was fast before it failed is probed by one delivery at a time', async () => {
  const engine = await startEngine({ clock: standingClock() });
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  // Fast successes raise the concurrency limit.
  await engine.publish(range(40), worker);
  await receiver.until(40);
  receiver.answer((_got, response) => response.writeHead(500).end());
  await engine.publish(range(40), worker);
  const { failures } = await until(
    () => stateOf(engine),
    ({ probeAt }) => probeAt !== null,
  );
  await meanwhile(engine, worker);
  const before = receiver.got.length;
  assert.ok(failures >= 5 && before < 80);
  // The probe stays without an answer.
  receiver.answer(() => {});
  engine.clock.advance(13_000);
  await receiver.until(before + 1);
  await meanwhile(engine, worker);
  assert.equal(receiver.got.length, before + 1);
});

test('a new owner continues with the breaker of its predecessor', async () => {
  const { engine, receiver } = await startDead();
  const first = await engine.startWorker();
  const { probeAt } = await until(
    () => stateOf(engine),
    ({ failures }) => failures === 5,
  );
  await first.stop();
  // Of the same store, so that the new owner finds both at once.
  const other = await startReceiver();
  await engine.addWebhook(other.url);
  await engine.publish([21]);
  const second = await engine.startWorker();
  await other.until(1);
  await meanwhile(engine, second);
  assert.equal(receiver.got.length, 5);
  const waitMs = (probeAt?.getTime() ?? 0) - engine.clock.now().getTime();
  assert.ok(waitMs > 0 && waitMs <= 10_000);
  engine.clock.advance(waitMs + 1_000);
  await receiver.until(6);
});

test('a step of the clock neither ends nor extends a pause', async () => {
  const engine = await startEngine({ clock: standingClock() });
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(503, { 'retry-after': '60' }).end());
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  await engine.publish([1], worker);
  await receiver.until(1);
  await until(
    () => stateOf(engine),
    ({ charged }) => charged === 1,
  );
  receiver.answer((_got, response) => response.writeHead(204).end());
  engine.clock.set(300_000);
  await engine.publish([2], worker);
  await meanwhile(engine, worker);
  assert.equal(receiver.got.length, 1, 'the pause has not ended');
  engine.clock.set(-600_000);
  engine.clock.advance(61_000);
  await receiver.until(2);
});

test('a webhook receives no more deliveries a second than its rate limit', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url, { ratePerSecond: 20 });
  await engine.publish(range(30));
  // The first attempt begins later, by as much as the worker and the machine take, and so do all others.
  const began = engine.clock.now();
  await engine.startWorker();
  await receiver.until(30);
  const [recorded] = await until(
    () => engine.sql<{ attempts: number; lastMs: number }[]>`
      select count(*)::int as attempts, 1000 * extract(epoch from max(date_started) - ${began}::timestamptz)::float8 as "lastMs"
      from attempt_log`,
    ([all]) => all?.attempts === 30,
  );
  // Times are recorded in whole milliseconds.
  assert.ok((recorded?.lastMs ?? 0) >= (29 * 1_000) / 20 - 1, `${recorded?.lastMs} ms`);
});
