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
