/** Events for the operator of stores in three databases: the platform store is in another one than the home database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import type { Sql } from '#db/pool.ts';
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

/** Returns when a trigger has failed the same statement three times. The numbers of a sequence stay when their transaction ends. */
async function failing(
  sql: Sql,
  [before, table, when]: readonly [before: string, table: string, when: string],
  act: () => Promise<unknown>,
): Promise<void> {
  await sql.unsafe(`create sequence tries; create function die() returns trigger language plpgsql as $$ begin
    perform nextval('tries'); raise exception 'died'; end $$;
    create trigger die before ${before} on ${table} for each row when (${when}) execute function die()`);
  await act();
  await until(
    async () => (await sql<{ n: number }[]>`select last_value as n from tries`)[0]?.n ?? 0,
    (tries) => tries >= 3,
  );
}

const succeeding = (sql: Sql, table: string) =>
  sql.unsafe(`drop trigger die on ${table}; drop function die; drop sequence tries`);

test('an event that cannot be published waits', async () => {
  const target = databaseOf(platformStore);
  const stores: number[] = [];
  const when = `new.resource_type = 'operator_event'`;
  await failing(target, ['insert', 'event', when], async () => stores.push(...(await createStores())));
  await succeeding(target, 'event');
  for (const storeId of stores) assert.deepEqual(await arrived(storeId, 1), EXPECTED.slice(0, 1));
});

test('a crash between the publish and the end of its note publishes nothing twice', async () => {
  const [, , storeId = 0] = await createStores();
  const source = databaseOf(storeId);
  assert.notEqual(source, databaseOf(platformStore));
  assert.notEqual(source, home);
  await failing(source, ['delete', 'operator_outbox', 'true'], () => disable(storeId));
  assert.deepEqual((await arrived(storeId, 2)).toSorted(), EXPECTED);
  await succeeding(source, 'operator_outbox');
  await until(
    async () => (await source`select from operator_outbox`).length,
    (waiting) => waiting === 0,
  );
  const [marker = 0] = await createStores();
  await arrived(marker, 1);
  assert.deepEqual((await arrived(storeId, 2)).toSorted(), EXPECTED);
});
