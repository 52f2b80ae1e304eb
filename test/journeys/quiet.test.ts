/** An installation without work leaves its database alone, and works at once when there is something to do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pace } from '#core/lifecycle.ts';
import { startTestApp, type TestApp } from '../setup/app.ts';
import { standingClock } from '../setup/clock.ts';
import { KEY } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const MINUTE_MS = 60_000;

/** A pace that becomes quiet when the test says so. */
function createPace() {
  const clock = standingClock();
  const pace = new Pace(clock);
  const rest = () =>
    until(
      async () => {
        clock.advance(MINUTE_MS);
        return pace.isQuiet;
      },
      (isQuiet) => isQuiet,
    );
  return { pace, rest };
}

async function addWebhook({ api, storeId }: TestApp, url: string): Promise<void> {
  const body = { name: 'Orders', format: 'json', url, encryption_key: KEY, events: ['transaction/created'] };
  assert.equal((await api('POST', `/stores/${storeId}/webhooks`, { body })).status, 201);
}
async function publish({ api, storeId, platformToken }: TestApp, id: number): Promise<void> {
  const body = { event: 'transaction/created', resource: { id, total: 1 } };
  assert.equal((await api('POST', `/stores/${storeId}/events`, { token: platformToken, body })).status, 201);
}

test('after a quiet time an event is delivered, and probes do not end the quiet time', async () => {
  const { pace, rest } = createPace();
  const app = await startTestApp({ pace });
  const receiver = await startReceiver();
  await addWebhook(app, receiver.url);
  for (const id of [1, 2]) {
    await rest();
    const before = pace.worksAtMs;
    for (const probe of ['live', 'ready']) assert.equal((await app.api('GET', `/health/${probe}`)).status, 200);
    assert.equal(pace.worksAtMs, before);
    await publish(app, id);
    assert.ok(pace.worksAtMs > before);
    await receiver.until(id);
  }
});

test('the quiet time of a process that only delivers ends with a request to another one', async () => {
  const [serving, delivering] = [createPace(), createPace()];
  const app = await startTestApp({ roles: ['serve'], pace: serving.pace });
  const receiver = await startReceiver();
  await app.startSecond({ roles: ['deliver'], pace: delivering.pace });
  await addWebhook(app, receiver.url);
  for (const id of [1, 2]) {
    for (const { rest } of [serving, delivering]) await rest();
    // Any request: the process may be killed before it notifies others of what it publishes.
    assert.equal((await app.api('GET', `/stores/${app.storeId}`)).status, 200);
    await until(
      async () => delivering.pace.isQuiet,
      (isQuiet) => !isQuiet,
    );
    await publish(app, id);
    await receiver.until(id);
  }
});
