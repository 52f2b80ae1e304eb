/** A store is erased: from the answer on it cannot be accessed, and retention deletes all its rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '#config/config.ts';
import { createLog } from '#core/log.ts';
import { createErasedStorePurges, TABLES_OF_STORES } from '#events/event-purges-sql.ts';
import { listenForChanges } from '#delivery/announce.ts';
import { shardOf } from '#core/ids.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { verifyDelivery } from '#receiver';
import { createStorePurges } from '#stores/stores-sql.ts';
import { addMember, createStore } from '#stores/store.ts';
import { eventCachesOf, openInternalEvents } from '../../src/server/publishing.ts';
import { purgesOfStores } from '../../src/server/retention.ts';
import { startTestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, userId, platformToken: platform } = app;

const MINUTE_MS = 60_000;
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

async function addWebhook({ storeId, token }: Made, of = 'transaction'): Promise<number> {
  const url = `${receiver.url}/${storeId}`;
  const body = { name: 'Hook', format: 'json', encryption_key: 'a key', url, event_resource: of };
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

/** Creates an app that declares a webhook at a path of the receiver, and lets it into the store. */
async function letInDeclaring({ storeId }: Made, path: string) {
  const body = {
    name: 'Gadget',
    redirect_uris: ['https://gadget.example.com/cb'],
    webhook_url: receiver.url + path,
  };
  const response = await api('POST', '/clients', { token: platform, body });
  assert.equal(response.status, 201);
  const { client_id: clientId, webhook_key: key } = (await response.json()) as Record<string, string>;
  assert.ok(clientId !== undefined && key !== undefined);
  await letAppIn(app, { clientId, userId, storeId, now: clock.now() });
  const verified = (from: number) =>
    Promise.all(
      receiver.got
        .filter((got) => got.path === path)
        .slice(from)
        .map(({ headers, body: sent }) =>
          verifyDelivery({
            headers,
            body: sent,
            keys: [key],
            toleranceSeconds: HOUR_MS / 1_000,
            now: () => clock.now(),
          }),
        ),
    );
  return { clientId, verified };
}
const attemptsAtPath = (path: string, count: number): Promise<unknown> =>
  until(
    async () => receiver.got.filter((got) => got.path === path),
    ({ length }) => length >= count,
  );
const answering = (status: number, headers: Record<string, string> = {}): void =>
  receiver.answer((_got, response) => void response.writeHead(status, headers).end());
const pendingOf = ({ storeId }: Made) =>
  sql<{ attempts: number }[]>`select attempts from delivery where store_id = ${storeId}`;

/** Runs all purges, an hour later. */
async function purgeAll(): Promise<void> {
  const config = readConfig({}, '/');
  const deps = { config, sql: storesOf(sql), log: createLog('error'), caches: eventCachesOf(undefined) };
  const purges = purgesOfStores({ ...deps, ...openInternalEvents(config) });
  for (const { purge } of purges) await purge(1_000, new Date(clock.now().getTime() + HOUR_MS));
}

/** Tables whose rows of an erased store are dropped with their day, or kept for the persons and apps that had access. */
const KEPT = ['access_grant', 'attempt', 'audit', 'delivery_done'];

/** Returns the tables that still have rows of the store, except those above. */
async function tablesWith({ storeId }: Made): Promise<string[]> {
  const stores = storesOf(sql);
  const tables = await stores<{ name: string }[]>`
    select c.relname::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'store_id'
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> all(${KEPT}::text[])
    order by 1`;
  const found = [];
  for (const { name } of tables)
    if ((await stores`select from ${stores(name)} where store_id = ${storeId} limit 1`).length > 0) found.push(name);
  const named = await stores`select from erased_store where id = ${storeId}`;
  return [...found, ...named.map(() => 'erased_store')];
}

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

test('an app that declares a webhook is sent that its store is erased, with retries after a restart, and nothing is left then', async () => {
  answering(204);
  const store = await newStore();
  await addWebhook({ ...store, token: platform }, 'app');
  const { clientId, verified } = await letInDeclaring(store, '/gadget');
  await attemptsAtPath('/gadget', 1);
  await attemptsAtPath(`/${store.storeId}`, 1);
  answering(503, { 'Retry-After': '600' });
  assert.equal(await erase(store), 204);
  assert.equal((await api('GET', `/stores/${store.storeId}`, { token: platform })).status, 404);
  await until(
    () => pendingOf(store),
    ([delivery]) => delivery?.attempts === 1,
  );
  await purgeAll();
  assert.deepEqual(await tablesWith(store), ['delivery', 'event', 'webhook', 'erased_store']);

  answering(204);
  clock.advance(11 * MINUTE_MS);
  await app.restart();
  await attemptsAtPath('/gadget', 3);
  const [first, second] = await verified(1);
  assert.ok(first !== undefined && second !== undefined);
  assert.deepEqual([first.event, first.storeId, first.storeDomain], ['app/store_erased', store.storeId, '']);
  assert.deepEqual([second.id, second.attempt], [first.id, 2]);
  const { _links: _, id: _id, date_created: _date, ...payload } = second.json() as Record<string, unknown>;
  assert.deepEqual(payload, {
    client_id: clientId,
    store_id: store.storeId,
    scope: null,
    previous_scope: 'store_full_access',
    user: null,
  });
  assert.equal(attemptsAt(store.storeId), 1, 'the other webhook gets the installation only');
  await until(
    () => pendingOf(store),
    ({ length }) => length === 0,
  );
  for (let round = 0; round < 2; round += 1) await purgeAll();
  assert.deepEqual(await tablesWith(store), []);
  const states = await sql`
    select from webhook_state t where not exists (select from webhook w where w.shard = t.shard and w.id = t.webhook_id)`;
  assert.equal(states.length, 0);
});

test('a paused webhook of an app is sent at once that its store is erased, and nothing else', async () => {
  // Longer than any test.
  answering(503, { 'Retry-After': '3000' });
  const store = await newStore();
  const { verified } = await letInDeclaring(store, '/paused');
  await until(
    () => pendingOf(store),
    ([delivery]) => delivery?.attempts === 1,
  );
  answering(204);
  assert.equal(await erase(store), 204);
  await attemptsAtPath('/paused', 2);
  // An update of a row while the outcome of its attempt is recorded would lose the outcome.
  await until(
    () => pendingOf(store),
    (pending) => pending.every(({ attempts }) => attempts > 0),
  );
  // The next owner of the shard reads the first delivery as due, which would be sent now if it had not failed by the erasure.
  await sql`update delivery set due_at = ${clock.now()} where store_id = ${store.storeId}`;
  await app.restart();
  await until(
    () => pendingOf(store),
    ({ length }) => length === 0,
  );
  const events = (await verified(0)).map(({ event }) => event);
  assert.deepEqual(events, ['app/installed', 'app/store_erased']);
});

test('the webhook of an app in an erased store is deleted when its endpoint is gone', async () => {
  answering(204);
  const store = await newStore();
  await letInDeclaring(store, '/gone');
  await attemptsAtPath('/gone', 1);
  answering(410);
  assert.equal(await erase(store), 204);
  await until(
    () => sql`select from webhook where store_id = ${store.storeId}`,
    ({ length }) => length === 0,
  );
  assert.equal((await pendingOf(store)).length, 0);
});

test('the name of an erased store stays while the webhook of an app waits there, also without its event', async () => {
  answering(204);
  const store = await newStore();
  await letInDeclaring(store, '/waiting');
  await attemptsAtPath('/waiting', 1);
  answering(503, { 'Retry-After': '3000' });
  assert.equal(await erase(store), 204);
  await until(
    () => pendingOf(store),
    ([delivery]) => delivery?.attempts === 1,
  );
  await sql`delete from event where shard = ${shardOf(store.storeId)} and store_id = ${store.storeId}`;
  await purgeAll();
  assert.deepEqual(await tablesWith(store), ['delivery', 'webhook', 'erased_store']);
});

test('workers are notified of every webhook of an erased store', async (t) => {
  const store = await newStore();
  const ids = [await addWebhook(store), await addWebhook(store)];
  const notified = new Set<number>();
  const ignore = (): void => undefined;
  const onWebhook = ({ webhookId }: { webhookId: number }): void => void notified.add(webhookId);
  const handlers = { onWebhook, onWork: ignore, onRetry: ignore, onEvents: ignore, onMissed: ignore };
  const listening = await listenForChanges(sql, handlers, { silenceMs: HOUR_MS, pace: NEVER_QUIET });
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
