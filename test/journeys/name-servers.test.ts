/** A failing name server is an internal fault: no endpoint is charged, and waiting deliveries arrive later. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { standingClock } from '../setup/clock.ts';
import { startEngine } from '../setup/engine.ts';
import { resolverOf, startNameServer } from '../setup/name-server.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

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
