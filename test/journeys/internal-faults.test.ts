/** Internal faults of a delivery: visible, limited in number, and not charged to the webhook. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

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
