/** Internal faults of a delivery or of a name server: visible, limited in number, and not charged to the webhook. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { standingClock } from '../setup/clock.ts';
import { resolverOf, startNameServer } from '../setup/name-server.ts';

// Deliveries

test('a delivery that cannot be rendered ends as internal at the twelfth attempt, and does not affect the health of its webhook', async () => {
  const engine = await startEngine({ log: createLog('silent') });
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url, { query: 'fields=total' });
  const [broken] = await engine.publish([1, 2]);
  assert.ok(broken !== undefined);
  await engine.sql`update event set body = '{' where id = ${broken.id}`;
  await engine.startWorker();
  const rowOf = () => engine.sql<{ faults: number; attempts: number }[]>`select faults, attempts from delivery`;
  for (let fault = 1; fault < 12; fault += 1) {
    const [row] = await until(rowOf, ([one]) => one?.faults === fault * 720);
    assert.equal(row?.attempts, 0, 'not charged');
    engine.clock.advance(31_000);
  }
  await until(rowOf, ({ length }) => length === 0);
  const done = await engine.sql`
    select d.state, d.attempts, a.n, a.outcome, a.response_code from delivery_done d
    join attempt_log a on a.delivery_id = d.id order by d.event_id`;
  assert.deepEqual(
    [...done],
    [
      { state: 'failed', attempts: 1, n: 1, outcome: 'internal', response_code: null },
      { state: 'successful', attempts: 1, n: 1, outcome: 'delivered', response_code: 204 },
    ],
  );
  const states = await engine.sql`
    select webhook_id from webhook_state where webhook_id = ${webhookId} and consecutive_failures > 0`;
  assert.equal(states.length, 0);
});

// Name servers

test('while the name server is silent no endpoint is charged, and its deliveries arrive when it answers again', async () => {
  const server = await startNameServer();
  // No retry is due, and no cached failure expires, before the test advances the clock.
  const clock = standingClock();
  const engine = await startEngine({ clock, resolve: resolverOf(server, { lookupTimeoutMs: 200 }, { clock }) });
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url.replace('127.0.0.1', 'shop.example.com'));
  await engine.startWorker();
  await engine.publish([1, 2, 3, 4, 5, 6]);
  const rowsOf = () => engine.sql<{ faults: number; attempts: number }[]>`select faults, attempts from delivery`;
  const rows = await until(rowsOf, (found) => found.every(({ faults }) => faults > 0));
  assert.deepEqual(
    [...rows],
    Array.from({ length: 6 }, () => ({ faults: 1, attempts: 0 })),
  );
  server.say(() => ({ addresses: ['127.0.0.1'] }));
  // More than once: a look-up fails again if the machine pauses for longer than its limit.
  await until(
    async () => {
      clock.advance(31_000);
      return receiver.got.length;
    },
    (count) => count === 6,
  );
  const failing = await engine.sql`
    select webhook_id from webhook_state where webhook_id = ${webhookId} and consecutive_failures > 0`;
  assert.equal(failing.length, 0);
});
