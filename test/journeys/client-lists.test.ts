/** Collections of clients: all of them for the platform, a person's own for that person and for an app of their account. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER, REDIRECT } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { itemsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, adaId, bobId, store, account, platformToken: platform } = people;

const make = async (body: object = {}, headers = {}) =>
  call('POST', '/clients', { token: platform, body: { name: 'Made', redirect_uris: [REDIRECT], ...body }, headers });
const idOf = async (made: ReturnType<typeof make>): Promise<string> => String((await made).body['client_id']);

test('the platform lists every client, and none of them shows a secret', async () => {
  const id = await idOf(make({ name: 'Zebra' }));
  const listed = await call('GET', '/clients?order=name%20desc&limit=1', { token: platform });
  const [client] = itemsOf(listed, 'clients');
  assert.deepEqual([listed.status, client?.['client_id'], client?.['client_secret']], [200, id, null]);
  const all = itemsOf(await call('GET', '/clients', { token: platform }), 'clients');
  assert.deepEqual(new Set(all.map((one) => one['client_secret'])), new Set([null]));
});

test('a person reads their own apps by an app of their account, and an app of one store does not', async () => {
  const mine = await idOf(make({ owner: adaId }));
  const theirs = await idOf(make({ owner: bobId }));
  const listed = await call('GET', `/users/${adaId}/clients`, { token: account });
  assert.deepEqual(
    itemsOf(listed, 'clients').map((client) => client['client_id']),
    [mine],
  );
  const status = async (token: string, path: string) => (await call('GET', path, { token })).status;
  const paths = [`/clients/${mine}`, `/clients/${theirs}`, `/users/${adaId}/clients`, `/users/${bobId}/clients`];
  const seenBy = (token: string) => Promise.all(paths.map((path) => status(token, path)));
  assert.deepEqual(await seenBy(platform), [200, 200, 200, 200]);
  assert.deepEqual(await seenBy(account), [200, 404, 200, 404]);
  assert.deepEqual(await seenBy(store), [404, 404, 404, 404]);
  assert.equal(await status(platform, '/users/999999999/clients'), 404);
});

test('a person reads their own apps in a browser, and another person does not', async () => {
  const mine = await idOf(make({ owner: adaId, name: 'Browsed' }));
  const page = (cookie: string) =>
    fetch(`${people.origin}/clients/${mine}`, { headers: { Accept: 'text/html', Cookie: cookie }, redirect: 'manual' });
  const seen = await page(people.browser.cookie() ?? '');
  assert.equal(seen.status, 200);
  assert.match(await seen.text(), /Browsed/);
  assert.equal((await page('')).status, 303);
});

test("an app links to its owner and to the person's other apps", async () => {
  const owned = (await make({ owner: adaId })).body._links;
  assert.equal(owned['svc:user']?.href, `${ISSUER}/users/${adaId}`);
  assert.equal(owned['svc:clients']?.href, `${ISSUER}/users/${adaId}/clients`);
  const ownerless = (await make()).body._links;
  assert.deepEqual([ownerless['svc:user'], ownerless['svc:clients']?.href], [undefined, `${ISSUER}/clients`]);
});

test('a client created twice under one idempotency key is one client, with one secret, which no cache stores', async () => {
  const [first, second] = [
    await make({}, { 'Idempotency-Key': 'one client' }),
    await make({}, { 'Idempotency-Key': 'one client' }),
  ];
  assert.match(String(first.body['client_secret']), /^hal_/);
  assert.deepEqual(second.body, first.body);
  assert.deepEqual([first.headers.get('cache-control'), second.headers.get('cache-control')], ['no-store', 'no-store']);
});

test('a client that was changed meanwhile is not deleted', async () => {
  const id = await idOf(make({ is_verified: false }));
  const read = await call('GET', `/clients/${id}`, { token: platform });
  const headers = { 'If-Match': String(read.headers.get('etag')) };
  await people.sql`update client set name = 'Other', date_modified = date_modified + interval '1 second'
    where client_id = ${id}`;
  assert.equal((await call('DELETE', `/clients/${id}`, { token: platform, headers })).status, 412);
  assert.equal((await call('GET', `/clients/${id}`, { token: platform })).status, 200);
  const fresh = await call('GET', `/clients/${id}`, { token: platform });
  const now = { 'If-Match': String(fresh.headers.get('etag')) };
  assert.equal((await call('DELETE', `/clients/${id}`, { token: platform, headers: now })).status, 204);
  assert.equal((await call('GET', `/clients/${id}`, { token: platform })).status, 404);
});

test('a developer sees where an app is installed, since when, with which scope and webhooks, and not by whom', async () => {
  const clientId = await idOf(make({ owner: adaId, name: 'Installed' }));
  const [row] = await people.sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  const client = row?.id ?? 0;
  const granted = async (
    id: number,
    userId: number,
    storeId: number | null,
    permissions: string[] | null,
    date: string,
  ) =>
    people.sql`insert into access_grant (id, client, user_id, store_id, scope, permissions, date_created, date_used)
      values (${id}, ${client}, ${userId}, ${storeId}, ${storeId === null ? 'user_full_access' : permissions === null ? 'store_full_access' : 'store_limited'},
        ${permissions}::text[], ${date}, ${date})`;
  await granted(2_000_001, adaId, people.alpha, ['events_read'], '2026-01-01T00:00:00Z');
  await granted(2_000_002, adaId, people.alpha, ['webhooks', 'events_read'], '2026-02-01T00:00:00Z');
  await granted(2_000_003, adaId, people.beta, null, '2026-03-01T00:00:00Z');
  await granted(2_000_004, bobId, null, null, '2026-04-01T00:00:00Z');
  await granted(2_000_006, adaId, null, null, '2026-06-01T00:00:00Z');
  // Bob is not a member of this store, so the app has no access to it by him.
  await granted(2_000_005, bobId, people.beta, null, '2026-05-01T00:00:00Z');
  const path = `/clients/${clientId}/installs`;
  const listed = await call('GET', path, { token: account });
  const shown = itemsOf(listed, 'installs').map((one) =>
    ['id', 'store_id', 'scope', 'date_created', 'date_used', 'webhooks_total'].map((name) => one[name]),
  );
  const day = (month: number) => `2026-0${month}-01T00:00:00+0000`;
  assert.deepEqual(shown, [
    [2_000_002, people.alpha, 'webhooks events_read', day(1), day(2), 0],
    [2_000_003, people.beta, 'store_full_access', day(3), day(3), 0],
    [2_000_004, null, 'user_full_access', day(4), day(4), 0],
    [2_000_006, null, 'user_full_access', day(6), day(6), 0],
  ]);
  assert.doesNotMatch(JSON.stringify(listed.body), /bob|ada@/i);
  const filtered = await call('GET', `${path}?scope=*webhooks*&order=date_used`, { token: account });
  assert.deepEqual(
    itemsOf(filtered, 'installs').map((one) => one['store_id']),
    [people.alpha],
  );
  const read = await call('GET', `/clients/${clientId}`, { token: account });
  assert.equal(read.body._links['svc:installs']?.href, ISSUER + path);
  assert.equal((await call('GET', path, { token: store })).status, 404);
  await people.sql`update access_grant set date_revoked = now() where client = ${client} and store_id = ${people.beta}`;
  const after = itemsOf(await call('GET', path, { token: platform }), 'installs');
  assert.deepEqual(
    after.map((one) => one['store_id']),
    [people.alpha, null, null],
  );
});

test('an install counts the webhooks that the app created in the store, and which of them fail', async () => {
  const clientId = await idOf(make({ owner: adaId, name: 'Hooked' }));
  const [row] = await people.sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  const client = row?.id ?? 0;
  await people.sql`insert into access_grant (id, client, user_id, store_id, scope, date_created)
    values (2_100_001, ${client}, ${adaId}, ${people.alpha}, 'store_full_access', now())`;
  const hook = async (of: number | null, isActive: boolean) => {
    const body = { name: 'Hook', format: 'json', encryption_key: 'a key of mine', is_active: isActive };
    const made = await call('POST', `/stores/${people.alpha}/webhooks`, { token: account, body });
    await people.sql`update webhook set client = ${of} where id = ${Number(made.body['id'])}`;
    return Number(made.body['id']);
  };
  const failing = await hook(client, true);
  await hook(client, true);
  await hook(client, false);
  await hook(null, true);
  await people.sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
    values (${failing % 256}, ${failing}, 0, 7, now())`;
  const [install] = itemsOf(await call('GET', `/clients/${clientId}/installs`, { token: account }), 'installs');
  const counts = ['webhooks_total', 'webhooks_active', 'webhooks_failing'].map((name) => install?.[name]);
  assert.deepEqual(counts, [3, 2, 1]);
  const page = await people.browser.open(`/account/clients/${clientId}`);
  assert.match(page.text, new RegExp(`href="${ISSUER}/clients/${clientId}/installs"`));
});
