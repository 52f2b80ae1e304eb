/** Events for the operator of stores in three databases: the platform store is in another one than the home database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startDividedApp } from '../setup/divided-app.ts';
import { until } from '../setup/until.ts';

const divided = await startDividedApp({ log: createLog('silent') });
const { app, home, receiver, call, createStores, publish, platform } = divided;
const { databaseOf } = divided.stores;
receiver.answer(({ path }, response) => void response.writeHead(path === '/operator' ? 204 : 410).end());

const [, platformStore = 0] = await createStores();
await app.restart({ PLATFORM_STORE: String(platformStore) });
const made = await call('POST', `/stores/${platformStore}/webhooks`, {
  ...platform,
  body: {
    name: 'Operator',
    url: `${receiver.url}/operator`,
    format: 'json',
    encryption_key: 'key',
    event_resource: 'operator_event',
  },
});
assert.equal(made.status, 201, JSON.stringify(made.body));

/** Returns the names of the events about a store that have arrived, when there are `count`. */
async function arrived(storeId: number, count: number): Promise<string[]> {
  const read = async () =>
    receiver.got
      .filter(({ path, body }) => path === '/operator' && String(body).includes(`"store_id":${storeId},`))
      .map(({ headers }) => String(headers['service-webhook-event']));
  return until(read, ({ length }) => length >= count);
}

/** Disables a webhook of the store, whose endpoint is gone. */
async function disable(storeId: number): Promise<void> {
  await divided.createWebhook(storeId);
  assert.equal((await publish(storeId, 1)).status, 201);
}

const EXPECTED = ['operator_event/store_created', 'operator_event/webhook_disabled'];

test('what happens in any database arrives', async () => {
  for (const storeId of await createStores()) {
    await disable(storeId);
    assert.deepEqual((await arrived(storeId, 2)).toSorted(), EXPECTED);
  }
});

test('a crash between the publish and the end of its note publishes nothing twice', async () => {
  const [, , storeId = 0] = await createStores();
  const source = databaseOf(storeId);
  assert.notEqual(source, databaseOf(platformStore));
  assert.notEqual(source, home);
  // The transaction of the note ends as if its process had died; the numbers of a sequence stay.
  await source`create sequence tries`;
  await source`create function die() returns trigger language plpgsql as $$ begin
    perform nextval('tries'); raise exception 'died'; end $$`;
  await source`create trigger die before delete on operator_outbox for each row execute function die()`;
  await disable(storeId);
  await until(
    async () => (await source<{ n: number }[]>`select last_value as n from tries`)[0]?.n ?? 0,
    (tries) => tries >= 3,
  );
  assert.deepEqual((await arrived(storeId, 2)).toSorted(), EXPECTED);
  await source`drop trigger die on operator_outbox`;
  await until(
    async () => (await source`select from operator_outbox`).length,
    (waiting) => waiting === 0,
  );
  const [marker = 0] = await createStores();
  await arrived(marker, 1);
  assert.deepEqual((await arrived(storeId, 2)).toSorted(), EXPECTED);
});
