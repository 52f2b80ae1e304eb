/** The age of the backlog by cause: an alert must show what waits for Halcyon, and not what waits for an endpoint. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KEY } from '../setup/engine.ts';
import { startTestApp } from '../setup/app.ts';
import { scrape } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const WAITED_SECONDS = 120;

/** An app in which all webhooks of one origin share one slot, and a receiver. */
async function start() {
  const port = await freePort();
  const app = await startTestApp({ env: { METRICS_PORT: String(port), DELIVERY_SLOTS: '4' } });
  const receiver = await startReceiver();
  const held: (() => void)[] = [];
  /** Returns the causes that keep a delivery waiting for at least this long. */
  const causes = async (): Promise<(string | undefined)[]> => {
    const { samples } = await scrape(`http://127.0.0.1:${port}`);
    return samples
      .filter(({ name, value }) => name === 'halcyon_delivery_backlog_age_seconds' && value >= WAITED_SECONDS)
      .map(({ labels }) => labels['held_by']);
  };
  const hook = {
    name: 'Hook',
    format: 'json',
    url: receiver.url,
    encryption_key: KEY,
    events: ['transaction/created'],
  };
  return {
    /** Holds back each answer until the receiver was asked which deliveries wait. */
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
    /** Writes a key that looks as if it had been sealed with another secret key. */
    breakWebhooks: async (): Promise<void> => {
      await app.sql`update webhook set encryption_key = 'no envelope'`;
      await app.sql`select pg_notify('halcyon_webhook', shard || ':' || id) from webhook`;
    },
    /** Webhooks in memory by state. */
    lanes: async (state: string) => (await scrape(`http://127.0.0.1:${port}`)).value('halcyon_lanes', { state }),
    /** Returns the causes that kept a delivery waiting for at least this long, once the first of all is sent. */
    waitsFor: async () => {
      await receiver.until(1);
      app.clock.advance(WAITED_SECONDS * 1_000);
      const found = await causes();
      receiver.answer((_got, response) => response.writeHead(204).end());
      for (const answer of held) answer();
      return found;
    },
    causes,
  };
}

test("a delivery that waits for the rate limit of its webhook does not count as Halcyon's backlog", async () => {
  const { addWebhook, publish, waitsFor } = await start();
  await addWebhook({ rate_per_second: 2 });
  await publish(50);
  assert.deepEqual(await waitsFor(), ['endpoint']);
});

test("a delivery that waits for answers of its own endpoint does not count as Halcyon's backlog", async () => {
  const { holdAnswers, addWebhook, publish, waitsFor } = await start();
  holdAnswers();
  await addWebhook();
  await publish(5);
  assert.deepEqual(await waitsFor(), ['endpoint']);
});

test('a delivery that waits for a slot counts as backlog', async () => {
  const { holdAnswers, addWebhook, publish, waitsFor } = await start();
  holdAnswers();
  await addWebhook();
  await addWebhook();
  await publish(1);
  assert.deepEqual(await waitsFor(), ['us']);
});

test('a delivery of a webhook that cannot be used counts as backlog, and the webhook has a state of its own', async () => {
  const { addWebhook, breakWebhooks, publish, waitsFor, causes, lanes } = await start();
  await addWebhook();
  await breakWebhooks();
  await addWebhook();
  // At most one delivery is sent with the settings read before the change: a change in SQL, behind the API, sends no notification.
  await until(
    async () => {
      await publish(1);
      return [await lanes('unusable'), await lanes('inactive')];
    },
    ([unusable, inactive]) => unusable === 1 && inactive === 0,
  );
  await waitsFor();
  // Its settings are read again from time to time, and nothing waits for Halcyon meanwhile.
  assert.deepEqual(await until(causes, ({ length }) => length > 0), ['us']);
});
