/** A store is erased: from the answer on it cannot be accessed, and retention deletes all its rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createErasedStorePurges, TABLES_OF_STORES } from '#events/event-purges-sql.ts';
import { listenForChanges } from '#delivery/announce.ts';
import { shardOf } from '#core/ids.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStorePurges } from '#stores/stores-sql.ts';
import { addMember, createStore } from '#stores/store.ts';
import { startTestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, userId, platformToken: platform } = app;

const HOUR_MS = 3_600_000;

/** Creates a store of the one user, with an app that has access to it. */
async function newStore() {
  const now = clock.now();
  const details = { name: 'Doomed', domain: 'doomed.example.com', email: 'd@example.com', timeZone: 'UTC' };
  const { id: storeId } = await createStore(sql, { ...details, now });
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const redirectUris = ['https://app.example.com/cb'];
  const client = await createClient(sql, { name: 'Doomed app', redirectUris, trusted: false, now });
  const { access_token: token } = await letAppIn(app, { clientId: client.client_id, userId, storeId, now });
  return { storeId, token };
}
type Made = Awaited<ReturnType<typeof newStore>>;

async function addWebhook({ storeId, token }: Made): Promise<number> {
  const url = `${receiver.url}/${storeId}`;
  const body = { name: 'Hook', format: 'json', encryption_key: 'a key', url, event_resource: 'transaction' };
  const answer = (await (await api('POST', `/stores/${storeId}/webhooks`, { token, body })).json()) as { id: number };
  return answer.id;
}
async function publish({ storeId }: Made, id: number): Promise<number> {
  const body = { event: 'transaction/created', resource: { id, total: 1 } };
  const answer = await api('POST', `/stores/${storeId}/events`, { token: platform, body });
  return ((await answer.json()) as { id: number }).id;
}
/** Writes rows to every table that has rows of stores. */
async function fill(store: Made): Promise<void> {
  const { storeId } = store;
  const shard = shardOf(storeId);
  await publish(store, 1);
  await sql`
    insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
    values (${shard}, ${storeId}, 'k', sha256('k'), '{1}', ${clock.now()})`;
  await sql`insert into erased_resource (shard, store_id, type, id, version) values (${shard}, ${storeId}, 'customer', '1', 1)`;
  await sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    values (${shard}, ${storeId}, '1', '2026-01-01', 'EUR', 1, true)`;
  await sql`insert into revenue_day (shard, store_id, day, resource_id) values (${shard}, ${storeId}, '2026-01-01', '1')`;
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    values (${shard}, ${storeId}, '2026-01-01', '2026-01-01', ${clock.now()})
    on conflict (shard, store_id) do nothing`;
}
const erase = async ({ storeId }: Made): Promise<number> =>
  (await api('DELETE', `/stores/${storeId}`, { token: platform })).status;
const attemptsAt = (storeId: number): number => receiver.got.filter(({ path }) => path === `/${storeId}`).length;

test('no address of an erased store answers, not to the platform either', async () => {
  const store = await newStore();
  const webhookId = await addWebhook(store);
  const eventId = await publish(store, 1);
  const at = `/stores/${store.storeId}`;
  const paths = [at, `${at}/webhooks`, `/webhooks/${webhookId}`, `${at}/members`, `${at}/members/${userId}`];
  const all = [...paths, `/webhooks/${webhookId}/statuses`, `${at}/events/${eventId}/payload`, `${at}/transactions/1`];
  const statuses = () => Promise.all(all.map(async (path) => (await api('GET', path, { token: platform })).status));
  assert.deepEqual(new Set(await statuses()), new Set([200]));
  assert.equal(await erase(store), 204);
  assert.deepEqual(
    await statuses(),
    all.map(() => 404),
  );
  assert.equal(await erase(store), 404);
  const body = { event: 'transaction/created', resource: { id: 2 } };
  assert.equal((await api('POST', `${at}/events`, { token: platform, body })).status, 404);
});

test('grants of an erased store end at once, and the audit has an entry for each', async () => {
  const store = await newStore();
  const reads = async () => (await api('GET', '/', { token: store.token })).status;
  assert.equal(await reads(), 200);
  assert.equal(await erase(store), 204);
  assert.equal(await reads(), 401);
  const [grant] = await sql`select date_revoked from access_grant where store_id = ${store.storeId}`;
  assert.ok(grant?.['date_revoked'] instanceof Date);
  const [entry] = await sql`
    select user_id, address from audit where action = 'grant_revoked' and store_id = ${store.storeId}`;
  assert.deepEqual({ ...entry }, { user_id: userId, address: '127.0.0.1' });
});

test('an erased store has no members', async () => {
  const store = await newStore();
  await erase(store);
  const rows = await sql`select from membership where store_id = ${store.storeId}`;
  assert.equal(rows.length, 0);
});

test('pending deliveries of an erased store are not attempted any more', async () => {
  const store = await newStore();
  await addWebhook(store);
  receiver.answer((_got, response) => void response.writeHead(500).end());
  await publish(store, 1);
  const pending = () => sql<{ attempts: number }[]>`select attempts from delivery where store_id = ${store.storeId}`;
  await until(pending, ([delivery]) => delivery?.attempts === 1);
  assert.equal(await erase(store), 204);
  clock.advance(HOUR_MS);
  await until(pending, (deliveries) => deliveries.length === 0);
  assert.equal(attemptsAt(store.storeId), 1);
});

test('workers are notified of every webhook of an erased store', async (t) => {
  const store = await newStore();
  const ids = [await addWebhook(store), await addWebhook(store)];
  const notified = new Set<number>();
  const ignore = (): void => undefined;
  const onWebhook = ({ webhookId }: { webhookId: number }): void => void notified.add(webhookId);
  const handlers = { onWebhook, onWork: ignore, onRetry: ignore, onEvents: ignore, onMissed: ignore };
  const listening = await listenForChanges(sql, handlers, HOUR_MS);
  t.after(() => listening.stop());
  assert.equal(await erase(store), 204);
  await until(
    async () => ids.every((id) => notified.has(id)),
    (all) => all,
  );
});

test('the rows of an erased store are deleted in steps, none of another, and its name last', async () => {
  for (const { purge } of createErasedStorePurges({ sql: storesOf(sql) })) await purge(100, clock.now());
  const [store, other] = [await newStore(), await newStore()];
  for (const id of [1, 2, 3]) {
    await publish(store, id);
    await publish(other, id);
  }
  await erase(store);
  const left = async ({ storeId }: Made) => {
    const shard = shardOf(storeId);
    const [row] = await sql<{ resources: number; events: number }[]>`
      select (select count(*) from resource where shard = ${shard} and store_id = ${storeId}) as resources,
        (select count(*) from event where shard = ${shard} and store_id = ${storeId}) as events`;
    return [row?.resources, row?.events];
  };
  const [resources, events] = createErasedStorePurges({ sql: storesOf(sql) });
  const [names] = createStorePurges({ sql: storesOf(sql), tables: TABLES_OF_STORES });
  const later = new Date(clock.now().getTime() + HOUR_MS);
  const isNamed = async () => (await storesOf(sql)`select from erased_store where id = ${store.storeId}`).length === 1;
  const counts = [await resources?.purge(2, later), await resources?.purge(2, later), await events?.purge(100, later)];
  // One of each is the entry of the changelog that names the app with access.
  assert.deepEqual(counts, [2, 2, 4]);
  assert.deepEqual(
    [await left(store), await left(other)],
    [
      [0, 0],
      [4, 4],
    ],
  );
  await names?.purge(100, clock.now());
  assert.equal(await isNamed(), true, 'while a publish may still be in progress');
  await names?.purge(100, later);
  assert.equal(await isNamed(), false);
});

test('the name of an erased store stays while any row of it is left', async () => {
  const [names] = createStorePurges({ sql: storesOf(sql), tables: TABLES_OF_STORES });
  const ofErased = createErasedStorePurges({ sql: storesOf(sql) });
  for (const one of ofErased) await one.purge(1_000, clock.now());
  // All tables but the last: each in turn is the only one that still has rows.
  for (const kept of ofErased) {
    const store = await newStore();
    await fill(store);
    await erase(store);
    for (const one of ofErased) if (one !== kept) assert.ok((await one.purge(1_000, clock.now())) > 0, one.name);
    const later = new Date(clock.now().getTime() + HOUR_MS);
    await names?.purge(100, later);
    const named = () => storesOf(sql)`select from erased_store where id = ${store.storeId}`;
    assert.equal((await named()).length, 1, `while ${kept.name} are left`);
    assert.ok((await kept.purge(1_000, clock.now())) > 0, kept.name);
    await names?.purge(100, later);
    assert.equal((await named()).length, 0);
  }
});

test('workers are notified of another domain of the store', async () => {
  const store = await newStore();
  await addWebhook(store);
  receiver.answer((_got, response) => void response.writeHead(204).end());
  await publish(store, 1);
  await until(
    async () => attemptsAt(store.storeId),
    (count) => count === 1,
  );
  const body = { domain: 'moved.example.com' };
  assert.equal((await api('PATCH', `/stores/${store.storeId}`, { token: store.token, body })).status, 200);
  await publish(store, 2);
  await until(
    async () => attemptsAt(store.storeId),
    (count) => count === 2,
  );
  const domains = receiver.got
    .filter(({ path }) => path === `/${store.storeId}`)
    .map(({ headers }) => headers['service-store-domain']);
  assert.deepEqual(domains, ['doomed.example.com', 'moved.example.com']);
});
