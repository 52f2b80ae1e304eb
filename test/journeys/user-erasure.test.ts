/** A user is erased: from the answer on none of their sessions, tokens and links works. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { createBrowser, PASSWORD, REDIRECT } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { passwords } from '../setup/passwords.ts';

const people = await startWithPeople();
const { call, sql, alpha, adaId, platformToken: platform } = people;

let n = 0;
/** Creates a signed-in user who belongs to a store, has given an app access to it and has created one. */
async function newPerson() {
  const email = `person${(n += 1)}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: people.now() });
  await addMember(sql, { storeId: alpha, userId: id, role: 'member', now: people.now() });
  const browser = createBrowser(people.origin);
  await browser.signIn(email);
  const { location } = await browser.consent(people.asking());
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const { body: tokens } = await people.redeem(code);
  const body = { name: 'Theirs', redirect_uris: [REDIRECT], owner: id };
  const { body: app } = await call('POST', '/clients', { token: platform, body });
  return { id, email, browser, tokens, app };
}
const erase = (id: number, headers = {}) => call('DELETE', `/users/${id}`, { token: platform, headers });

test('an erased user has no session, membership, token or password any more', async () => {
  const { id, email, browser, tokens } = await newPerson();
  const token = String(tokens['access_token']);
  const refresh = { grant_type: 'refresh_token', refresh_token: String(tokens['refresh_token']), ...people.client };
  assert.equal((await call('GET', `/stores/${alpha}`, { token })).status, 200);
  assert.equal((await erase(id)).status, 204);
  assert.equal((await call('GET', `/users/${id}`, { token: platform })).status, 404);
  assert.equal((await call('GET', `/stores/${alpha}`, { token })).status, 401);
  assert.deepEqual((await people.token(refresh)).body['error'], 'invalid_grant');
  assert.equal((await call('GET', `/stores/${alpha}/members/${id}`, { token: platform })).status, 404);
  assert.equal((await browser.open('/account')).status, 303);
  assert.notEqual((await browser.signIn(email)).status, 303);
  assert.equal((await erase(id)).status, 404);
  assert.equal((await call('GET', `/users/${adaId}`, { token: platform })).status, 200);
});

test('the apps of an erased user are deleted with them, because no one else could manage them', async () => {
  const { id, app } = await newPerson();
  const clientId = String(app['client_id']);
  assert.equal((await call('GET', `/clients/${clientId}`, { token: platform })).status, 200);
  await erase(id);
  assert.equal((await call('GET', `/clients/${clientId}`, { token: platform })).status, 404);
  const form = { grant_type: 'refresh_token', refresh_token: 'none', client_id: clientId };
  const refused = await people.token({ ...form, client_secret: String(app['client_secret']) });
  assert.deepEqual([refused.status, refused.body['error']], [401, 'invalid_client']);
});

test('the audit has the number of the erased user and the grants that ended', async () => {
  const { id } = await newPerson();
  await erase(id);
  const entries = await sql<{ action: string; address: string | null }[]>`
    select action, address from audit where user_id = ${id} order by id desc limit 3`;
  assert.deepEqual(
    entries.map(({ action, address }) => [action, address]),
    [
      ['user_erased', '127.0.0.1'],
      ['client_deleted', '127.0.0.1'],
      ['grant_revoked', '127.0.0.1'],
    ],
  );
});

test('an address is free again once its user is erased', async () => {
  const { id, email } = await newPerson();
  await erase(id);
  const body = { email, password: PASSWORD };
  const made = await call('POST', '/users', { token: platform, body });
  assert.equal(made.status, 201);
  assert.notEqual(made.body['id'], id);
});

test('only the platform erases users, and only if the entity tag matches', async () => {
  const { id, tokens } = await newPerson();
  const refused = await call('DELETE', `/users/${id}`, { token: String(tokens['access_token']) });
  assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
  assert.equal((await erase(id, { 'If-Match': '"1-other"' })).status, 412);
  const read = await call('GET', `/users/${id}`, { token: platform });
  assert.equal((await erase(id, { 'If-Match': String(read.headers.get('etag')) })).status, 204);
});

test('a refresh that races the erasure ends with it, and neither waits for the other', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { id, tokens } = await newPerson();
    const form = { grant_type: 'refresh_token', refresh_token: String(tokens['refresh_token']), ...people.client };
    const [erased, ...refreshed] = await Promise.all([erase(id), people.token(form), people.token(form)]);
    assert.equal(erased.status, 204);
    for (const { status, body } of refreshed) {
      assert.ok(status === 200 || status === 400, `the refresh answered ${status}`);
      if (status === 200) assert.equal((await call('GET', '/', { token: String(body['access_token']) })).status, 401);
    }
  }
});
