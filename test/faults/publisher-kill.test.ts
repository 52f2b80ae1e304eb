/**
 * packages/publisher while the server is killed and responses are dropped: every event whose promise is resolved exists once, under
 * its id, and in the order of the calls.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { createPublisher } from '../../packages/publisher/src/publisher.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';
import { startGate } from '../setup/publish-gate.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { until } from '../setup/until.ts';

const KILLS = 10;
const STORES = 3;
const EVENTS_PER_LIFE = 200;
/** The gate drops the response of every seventh request, and does not forward every eleventh. */
const [LOST, REFUSED] = [7, 11];
const WAITING_EVENTS = 300;
/** Shorter than the publisher waits between attempts, so that more requests are in progress when the server is killed. */
const WAIT_MS = 20;

const fixture = await openPublishFixture();
const { sql } = fixture;
const now = new Date();
const platform = await createClient(sql, { name: 'Shop', redirectUris: [], trusted: true, now });
const port = await freePort();
let server = await fixture.start(port);
const gate = await startGate(server.origin, cleanups());

test('each event is published once and in order, whatever is killed or dropped', async (t) => {
  gate.fate = (n) => (n % LOST === 0 ? 'lost' : n % REFUSED === 0 ? 'refused' : undefined);
  const publisher = createPublisher({
    baseUrl: gate.url,
    clientId: platform.client_id,
    clientSecret: platform.client_secret,
    batchEvents: 20,
    waitingEvents: WAITING_EVENTS,
    clock: { nowMs: () => performance.now(), wait: () => delay(WAIT_MS), random: () => 0.5 },
  });
  let [kills, settled, most] = [0, 0, 0];
  const isOver = () => kills === KILLS;
  const produce = async (at: number) => {
    const store = { name: `S${at}`, domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now };
    const { id: storeId } = await createStore(sql, store);
    const results: Promise<{ id: number; resource_id: string }>[] = [];
    for (let n = 0; !isOver(); n += 1) {
      await publisher.ready();
      // The events of the first store have keys of their own.
      const key = at === 0 ? { idempotency_key: `event-${n}` } : {};
      const result = publisher.publish(storeId, { event: 'transaction/created', resource: { id: n }, ...key });
      results.push(result.finally(() => (settled += 1)));
      most = Math.max(most, publisher.waiting.events);
    }
    const published = await Promise.all(results);
    return { storeId, published: published.map(({ id, resource_id }) => ({ id, resource_id })) };
  };
  const producers = Promise.all(Array.from({ length: STORES }, (_, at) => produce(at)));
  const kill = async () => {
    while (!isOver()) {
      const enough = settled + EVENTS_PER_LIFE + kills;
      await until(
        async () => settled,
        (count) => count > enough,
      );
      await server.end('SIGKILL');
      server = await fixture.start(port);
      kills += 1;
    }
  };
  const [stores] = await Promise.all([producers, kill()]);
  await publisher.close();
  for (const { storeId, published } of stores) {
    const stored = await sql<{ id: number; resource_id: string }[]>`
      select id::float8 as id, resource_id from event where store_id = ${storeId} order by event.id`;
    assert.equal(stored.length, published.length);
    const wrong = published.filter(
      ({ id, resource_id }, n) => stored[n]?.id !== id || stored[n].resource_id !== resource_id,
    );
    assert.deepEqual(wrong.slice(0, 5), []);
    assert.deepEqual(
      published.map(({ resource_id }) => resource_id),
      published.map((_, n) => String(n)),
    );
  }
  const bodies = new Set(gate.posts.map(({ storeId, body }) => `${storeId} ${body}`)).size;
  const total = stores.reduce((sum, { published }) => sum + published.length, 0);
  t.diagnostic(`${total} events, ${bodies} requests, ${gate.posts.length - bodies} repeated`);
  assert.ok(gate.posts.length - bodies >= KILLS, 'requests were repeated');
  assert.ok(most <= WAITING_EVENTS, `${most} events were queued`);
  assert.equal(gate.overlaps, 0);
});
