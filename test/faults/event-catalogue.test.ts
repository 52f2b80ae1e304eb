/** 10,000 generated publishes of every event: each delivered body matches the schema of the event catalogue. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { faultsOf, openCatalogue, publishes } from '../setup/event-catalogue.ts';
import { SEED } from '../setup/seed.ts';

const PUBLISHES = amountOf('event-catalogue', { all: 10_000, part: 2_000 });

test('every delivered body matches the schema of its event', async (t) => {
  const { api, platformToken, store, schemas, subscribe, publish, delivered } = await openCatalogue();
  await subscribe();
  await publish(publishes(PUBLISHES / 2, { derived: true, seed: SEED }));
  const change = { token: platformToken, body: { subscription_events: 'published' } };
  assert.equal((await api('PATCH', store, change)).status, 200);
  await publish(publishes(PUBLISHES / 2, { derived: false, seed: SEED + 1 }));
  const bodies = await delivered();
  t.diagnostic(`${PUBLISHES} publishes, ${bodies.length} deliveries`);
  assert.ok(bodies.length > PUBLISHES);
  assert.deepEqual(faultsOf(bodies, schemas).slice(0, 10), []);
});
