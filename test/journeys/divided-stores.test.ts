/** Stores in three databases: what a caller sees does not depend on the database of a store. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { transaction } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { accountsIn } from '#shards/map.ts';
import { startDividedApp } from '../setup/divided-app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { until } from '../setup/until.ts';

const divided = await startDividedApp();
const { app, home, databases, receiver, platform, call, createStores, publish, createWebhook, receivedBy } = divided;
const { indexOf, databaseOf } = divided.stores;

async function changelogOf(storeId: number): Promise<string[]> {
  const { body } = await call('GET', `/stores/${storeId}/changelogs?limit=100&order=id`);
  const [entries = []] = Object.values(body['_embedded'] as Record<string, { resource: string; action: string }[]>);
  return entries.map(({ resource, action }) => `${resource} ${action}`);
}

test('a store is used at once in the database of its shard, and its rows are in no other', async () => {
  const ids = await createStores();
  for (const id of ids) {
    await createWebhook(id);
    assert.equal((await publish(id, 1)).status, 201);
  }
  for (const id of ids) await receivedBy(id);
  for (const id of ids)
    for (const [index, sql] of databases.entries()) {
      const [row] = await sql<{ events: number; webhooks: number }[]>`
        select (select count(*) from event where store_id = ${id} and resource_type = 'transaction') as events,
          (select count(*) from webhook where store_id = ${id}) as webhooks`;
      const expected = index === indexOf(id) ? 1 : 0;
      assert.deepEqual(row, { events: expected, webhooks: expected }, `store ${id} in database ${index}`);
    }
});

test('the list of stores and each store come from the home database', async () => {
  const ids = await createStores();
  const { body } = await call('GET', '/stores?limit=100');
  const { total_items: total } = body;
  assert.equal(Number(total), divided.stores.count() + 1, JSON.stringify(body).slice(0, 300));
  for (const id of ids) assert.equal((await call('GET', `/stores/${id}`)).status, 200);
});

test('a change of a store is in the next delivery, and in its changelog', async () => {
  for (const id of await createStores()) {
    await createWebhook(id);
    const domain = `renamed${id}.example.com`;
    assert.equal(
      (await call('PATCH', `/stores/${id}`, { ...platform, body: { domain, time_zone: 'Asia/Tokyo' } })).status,
      200,
    );
    assert.equal((await publish(id, 2)).status, 201);
    const got = await receivedBy(id);
    assert.equal(got.headers['service-store-domain'], domain);
    const [copy] = await databaseOf(id)`select domain, time_zone, revision from store where id = ${id}`;
    const [original] = await home`select domain, time_zone, revision from store where id = ${id}`;
    assert.deepEqual(copy, original);
    assert.deepEqual(await changelogOf(id), ['store created', 'webhook created', 'store changed']);
  }
});

test('the entry of a change is the same text in each database', async () => {
  const texts: string[] = [];
  for (const id of await createStores()) {
    const member = { email: 'owner@example.com', role: 'owner' };
    assert.equal((await call('POST', `/stores/${id}/members`, { ...platform, body: member })).status, 201);
    const [row] = await databaseOf(id)<{ body: string }[]>`
      select body from resource where type = 'changelog' and store_id = ${id} and body like '%"member"%'`;
    texts.push(String(row?.body).replaceAll(/\d/g, ''));
  }
  assert.equal(new Set(texts).size, 1, texts.join('\n'));
});

test('a repeated request with an Idempotency-Key creates one webhook', async () => {
  for (const id of await createStores()) {
    const headers = { 'Idempotency-Key': randomBytes(16).toString('hex') };
    assert.equal(await createWebhook(id, { headers }), await createWebhook(id, { headers }));
    const rows = await databaseOf(id)`select from idempotency_key where shard = ${shardOf(id)}`;
    assert.equal(rows.length, 1, 'it moves with the store');
  }
});

test("the end of a membership disables the webhooks of the member's app, at once", async () => {
  for (const id of await createStores()) {
    const added = await call('POST', `/stores/${id}/members`, {
      ...platform,
      body: { email: 'owner@example.com', role: 'owner' },
    });
    assert.equal(added.status, 201, JSON.stringify(added.body));
    const client = await createClient(home, {
      name: 'Gadget',
      redirectUris: ['https://app.example.com/cb'],
      trusted: false,
      now: app.clock.now(),
    });
    const grant = { clientId: client.client_id, userId: app.userId, storeId: id, now: app.clock.now() };
    const { access_token: token } = await letAppIn({ sql: home, baseUrl: app.baseUrl }, grant);
    const webhook = await createWebhook(id, { token });
    assert.equal((await call('DELETE', `/stores/${id}/members/${app.userId}`)).status, 204);
    const { body } = await call('GET', `/webhooks/${webhook}`);
    assert.deepEqual([body['is_active'], body['inactive_reason']], ['0', 'access_ended']);
    const changelog = await changelogOf(id);
    for (const entry of ['grant revoked', 'member deleted', 'webhook deactivated'])
      assert.equal(changelog.filter((one) => one === entry).length, 1, `${entry} in ${changelog.join(', ')}`);
  }
});

test('an erased store is erased in its database', async () => {
  for (const id of await createStores()) {
    const webhook = await createWebhook(id);
    assert.equal((await call('DELETE', `/stores/${id}`)).status, 204);
    assert.equal((await call('GET', `/webhooks/${webhook}`)).status, 404);
    assert.equal((await publish(id, 3)).status, 404);
    assert.equal((await call('GET', `/stores/${id}/webhooks`)).status, 404);
  }
});

test('the response to an erasure waits for the database of the store', async () => {
  const [, id = assert.fail()] = await createStores();
  const webhook = await createWebhook(id);
  // The erasure is then the only change that the process has made.
  await app.restart();
  assert.equal((await call('DELETE', `/stores/${id}`)).status, 204);
  const [row] = await databaseOf(id)`select count(*) as webhooks from webhook where id = ${webhook}`;
  assert.deepEqual(row, { webhooks: 0 });
});

test('the outbox is empty after each response', async () => {
  await createStores();
  const [row] = await home`select count(*) as waiting from outbox`;
  assert.deepEqual(row, { waiting: 0 });
});

/** Makes an app with a webhook and gives it access, by a new person, to a new store of each database. */
async function installEverywhere(name: string) {
  const body = { name, redirect_uris: ['https://app.example.com/cb'], webhook_url: `${receiver.url}/${name}` };
  const client = await call('POST', '/clients', { ...platform, body });
  assert.equal(client.status, 201, JSON.stringify(client.body));
  const clientId = String(client.body['client_id']);
  const person = { email: `${name}@example.com`, password: 'a long password of a person' };
  const made = await call('POST', '/users', { ...platform, body: person });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const userId = Number(made.body['id']);
  const stores = (await createStores()).toSorted((a, b) => a - b);
  for (const storeId of stores) {
    const member = { email: person.email, role: 'owner' };
    assert.equal((await call('POST', `/stores/${storeId}/members`, { ...platform, body: member })).status, 201);
    await letAppIn({ sql: home, baseUrl: app.baseUrl }, { clientId, userId, storeId, now: app.clock.now() });
  }
  /** Returns the stores of the events with this action, in order, when there are as many as stores. */
  const storesWith = async (action: string): Promise<number[]> => {
    const received = async () =>
      receiver.got.filter(
        ({ path, headers }) => path === `/${name}` && headers['service-webhook-event'] === `app/${action}`,
      );
    const got = await until(received, ({ length }) => length >= stores.length);
    return got.map(({ headers }) => Number(headers['service-store-id'])).toSorted((a, b) => a - b);
  };
  return { clientId, userId, stores, storesWith };
}

test("an app's webhook is sent the beginning and the end of its access to stores of each database", async () => {
  const { clientId, stores, storesWith } = await installEverywhere('declaring');
  assert.deepEqual(await storesWith('installed'), stores);
  for (const [index, sql] of databases.entries()) {
    const rows = await sql<{ id: number }[]>`
      select store_id as id from webhook where is_for_app and store_id = any(${stores})`;
    assert.deepEqual(
      rows.map(({ id }) => indexOf(id)),
      [index],
      `database ${index} has the webhooks of its own stores`,
    );
  }
  assert.equal((await call('DELETE', `/clients/${clientId}`)).status, 204);
  assert.deepEqual(await storesWith('uninstalled'), stores);
});

test("an app's webhook is sent the end of its access in each database when the person is erased who gave it", async () => {
  const { userId, stores, storesWith } = await installEverywhere('orphaned');
  assert.deepEqual(await storesWith('installed'), stores);
  assert.equal((await call('DELETE', `/users/${userId}`)).status, 204);
  assert.deepEqual(await storesWith('uninstalled'), stores);
});

test("an app's webhook is sent the erasure of its stores in each database", async () => {
  const { stores, storesWith } = await installEverywhere('bereft');
  assert.deepEqual(await storesWith('installed'), stores);
  for (const id of stores) assert.equal((await call('DELETE', `/stores/${id}`)).status, 204);
  assert.deepEqual(await storesWith('store_erased'), stores);
});

test('a webhook that an app creates while its access ends is disabled', async () => {
  const [, id = assert.fail()] = await createStores();
  await call('POST', `/stores/${id}/members`, { ...platform, body: { email: 'owner@example.com', role: 'owner' } });
  const details = { name: 'Racer', redirectUris: ['https://app.example.com/cb'], trusted: false };
  const client = await createClient(home, { ...details, now: app.clock.now() });
  const [{ id: internal } = assert.fail()] = await home<{ id: number }[]>`
    select id from client where client_id = ${client.client_id}`;
  const grant = { clientId: client.client_id, userId: app.userId, storeId: id, now: app.clock.now() };
  await letAppIn({ sql: home, baseUrl: app.baseUrl }, grant);
  const webhook = await createWebhook(id);
  // As the transaction that creates a webhook: it has read the access, and is not committed yet.
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const isWritten = Promise.withResolvers<void>();
  const creating = transaction(databaseOf(id), async (tx) => {
    await accountsIn(home).locked(tx);
    await tx`update webhook set client = ${internal}, user_id = ${app.userId} where id = ${webhook}`;
    isWritten.resolve();
    await ended;
  });
  // An end of access that is applied before the transaction reads the access would be seen by that read, which this test leaves out.
  await isWritten.promise;
  // The response is sent after the outbox has waited for two seconds.
  assert.equal((await call('DELETE', `/stores/${id}/members/${app.userId}`)).status, 204);
  end();
  await creating;
  const state = async () => (await call('GET', `/webhooks/${webhook}`)).body['inactive_reason'];
  assert.equal(await until(state, (reason) => reason !== null), 'access_ended');
});
