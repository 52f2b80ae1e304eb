/** Whose backlog it is: what an operator is woken for must be what waits for Halcyon, and not for somebody's endpoint. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KEY } from '../setup/engine.ts';
import { startTestApp } from '../setup/app.ts';
import { scrape } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const WAITED_SECONDS = 120;

/** An app in which all webhooks to one origin together have one slot, and a receiver. */
async function start() {
  const port = await freePort();
  const app = await startTestApp({ env: { METRICS_PORT: String(port), DELIVERY_SLOTS: '4' } });
  const receiver = await startReceiver();
  const held: (() => void)[] = [];
  const hook = {
    name: 'Hook',
    format: 'json',
    url: receiver.url,
    encryption_key: KEY,
    events: ['transaction/created'],
  };
  return {
    /** The receiver answers nothing before it was asked who waits. */
    holdAnswers: () => receiver.answer((_got, response) => void held.push(() => response.writeHead(204).end())),
    addWebhook: async (settings = {}): Promise<void> => {
      const made = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: { ...hook, ...settings } });
      assert.equal(made.status, 201);
    },
    publish: async (count: number): Promise<void> => {
      const ids = Array.from({ length: count }, (_, index) => index);
      const body = ids.map((id) => ({ event: 'transaction/created', resource: { id, total: 1 } }));
      const path = `/stores/${app.storeId}/events`;
      assert.equal((await app.api('POST', path, { token: app.platformToken, body })).status, 200);
    },
    /** As if the row had been sealed with another key. */
    breakWebhooks: async (): Promise<void> => {
      await app.sql`update webhook set encryption_key = 'no envelope'`;
      await app.sql`select pg_notify('halcyon_webhook', shard || ':' || id) from webhook`;
    },
    /** Webhooks in memory by state. */
    lanes: async (state: string) => (await scrape(`http://127.0.0.1:${port}`)).value('halcyon_lanes', { state }),
    /** Who has kept anything waiting for so long, once the first of all is sent. */
    waitsFor: async () => {
      await receiver.until(1);
      app.clock.advance(WAITED_SECONDS * 1_000);
      const { samples } = await scrape(`http://127.0.0.1:${port}`);
      receiver.answer((_got, response) => response.writeHead(204).end());
      for (const answer of held) answer();
      const old = samples.filter(
        ({ name, value }) => name === 'halcyon_delivery_backlog_age_seconds' && value >= WAITED_SECONDS,
      );
      return old.map(({ labels }) => labels['held_by']);
    },
  };
}

test('what waits for the pace of its webhook is no backlog of ours', async () => {
  const { addWebhook, publish, waitsFor } = await start();
  await addWebhook({ rate_per_second: 2 });
  await publish(50);
  assert.deepEqual(await waitsFor(), ['endpoint']);
});

test('what waits for the answers of its own endpoint is no backlog of ours', async () => {
  const { holdAnswers, addWebhook, publish, waitsFor } = await start();
  holdAnswers();
  await addWebhook();
  await publish(5);
  assert.deepEqual(await waitsFor(), ['endpoint']);
});

test('what waits for a slot is', async () => {
  const { holdAnswers, addWebhook, publish, waitsFor } = await start();
  holdAnswers();
  await addWebhook();
  await addWebhook();
  await publish(1);
  assert.deepEqual(await waitsFor(), ['us']);
});

test('what waits for a webhook that cannot be used is, and the webhook has a state of its own', async () => {
  const { addWebhook, breakWebhooks, publish, waitsFor, lanes } = await start();
  await addWebhook();
  await breakWebhooks();
  await addWebhook();
  // What was read before it broke is sent by, once more at most: nobody is told of what SQL changes behind the API.
  await until(
    async () => {
      await publish(1);
      return [await lanes('unusable'), await lanes('inactive')];
    },
    ([unusable, inactive]) => unusable === 1 && inactive === 0,
  );
  assert.deepEqual(await waitsFor(), ['us']);
});
