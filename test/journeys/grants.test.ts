/** The grants of a person over the API: read and revoked by them, by an app of their account and by the platform. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { ISSUER, REDIRECT } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { itemsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, browser, sql, adaId, bobId, alpha, beta, account, platformToken: platform } = people;

/** Creates an app that Ada gives access to; `again` grants it once more. */
async function letIn(name: string, changes: Record<string, string> = {}, storeId = alpha) {
  const client = await createClient(sql, { name, redirectUris: [REDIRECT], trusted: false, now: people.now() });
  const again = async (): Promise<string> => {
    const asking = people.asking({ client_id: client.client_id, ...changes });
    const { location } = await browser.consent(asking, { store: String(storeId) });
    const code = new URL(location ?? '').searchParams.get('code') ?? '';
    return String((await people.redeem(code, client)).body['access_token']);
  };
  return { clientId: client.client_id, again, token: await again() };
}
const listed = async (token: string, query = '') =>
  itemsOf(await call('GET', `/users/${adaId}/grants?limit=300${query}`, { token }), 'grants');
async function grantOf(clientId: string) {
  const [grant] = await listed(platform, `&client_id=${clientId}`);
  assert.ok(grant, 'the app is connected');
  return grant;
}
const works = async (token: string): Promise<boolean> => (await call('GET', '/', { token })).status === 200;

test('a grant shows its app, its scope, its store and its date, and links to them', async () => {
  const { clientId } = await letIn('Shown');
  const { _links: links, id, ...properties } = await grantOf(clientId);
  assert.deepEqual(properties, {
    user_id: adaId,
    user_email: 'ada@example.com',
    client_id: clientId,
    name: 'Shown',
    company: null,
    is_verified: true,
    scope: 'store_full_access',
    store_id: alpha,
    date_created: '2026-07-01T10:00:00+0000',
    date_used: null,
    date_ends: null,
    webhooks_total: 0,
    webhooks_active: 0,
  });
  assert.deepEqual(
    Object.entries(links).flatMap(([rel, { href }]) => (rel === 'curies' ? [] : [[rel, href]])),
    [
      ['self', `${ISSUER}/grants/${String(id)}`],
      ['svc:user', `${ISSUER}/users/${adaId}`],
      ['svc:grants', `${ISSUER}/users/${adaId}/grants`],
      ['svc:store', `${ISSUER}/stores/${alpha}`],
      ['svc:client', `${ISSUER}/clients/${clientId}`],
    ],
  );
  const read = await call('GET', `/grants/${String(id)}`, { token: account });
  assert.deepEqual(
    [read.body['id'], read.body._links['svc:client']],
    [id, undefined],
    'the app belongs to another person',
  );
});

test('an app of one store reads and revokes its own grant and no other', async () => {
  const mine = await letIn('Mine');
  const other = await grantOf((await letIn('Other')).clientId);
  const seen = await listed(mine.token);
  assert.deepEqual(
    seen.map((grant) => grant['client_id']),
    [mine.clientId],
  );
  for (const method of ['GET', 'DELETE'])
    assert.equal((await call(method, `/grants/${String(other['id'])}`, { token: mine.token })).status, 404);
  assert.equal((await call('DELETE', String(seen[0]?._links['self']?.href), { token: mine.token })).status, 204);
  assert.equal(await works(mine.token), false);
});

test('an app that one person gave access to two stores sees, from each, the grant of that store', async () => {
  const first = await letIn('Two stores');
  const consent = people.asking({ client_id: first.clientId });
  assert.equal((await browser.consent(consent, { store: String(beta) })).status, 303);
  assert.deepEqual(
    (await listed(first.token)).map((grant) => grant['store_id']),
    [alpha],
  );
});

test('a revoked grant stops at once, however often the app was allowed, and is in the audit', async () => {
  const { clientId, token, again } = await letIn('Often');
  const second = await again();
  const grant = await grantOf(clientId);
  assert.equal((await call('DELETE', `/grants/${String(grant['id'])}`, { token: platform })).status, 204);
  assert.deepEqual([await works(token), await works(second)], [false, false]);
  assert.equal((await listed(platform, `&client_id=${clientId}`)).length, 0);
  for (const method of ['GET', 'DELETE'])
    assert.equal((await call(method, `/grants/${String(grant['id'])}`, { token: platform })).status, 404);
  const actions = await sql`
    select a.user_id, a.address from audit a join client c on c.id = a.client
    where c.client_id = ${clientId} and a.action = 'grant_revoked'`;
  assert.deepEqual(
    [...actions],
    Array.from({ length: 2 }, () => ({ user_id: adaId, address: '127.0.0.1' })),
  );
});

test('an app with access to the whole account sees the grants of other apps, and revokes only its own', async () => {
  const { clientId, token } = await letIn('Watched');
  const address = `/grants/${String((await grantOf(clientId))['id'])}`;
  assert.equal((await call('GET', address, { token: account })).status, 200);
  const refused = await call('DELETE', address, { token: account });
  assert.deepEqual([refused.status, JSON.stringify(refused.body).includes('other_app')], [403, true]);
  assert.equal(await works(token), true);
});

test('a grant of another person is not found', async () => {
  const { clientId } = await letIn('Of Ada');
  const grant = await grantOf(clientId);
  await sql`update access_grant set user_id = ${bobId} where id = ${Number(grant['id'])}`;
  for (const method of ['GET', 'DELETE'])
    assert.equal((await call(method, `/grants/${String(grant['id'])}`, { token: account })).status, 404);
  assert.equal((await call('GET', `/users/${bobId}/grants`, { token: account })).status, 404);
  const [row] = await sql`select date_revoked from access_grant where id = ${Number(grant['id'])}`;
  assert.equal(row?.['date_revoked'], null);
});

test('grants of an unknown user are not found, with any token', async () => {
  for (const path of ['/grants/999999999', '/grants/x', '/grants/0', '/users/999999999/grants', '/users/x/grants'])
    assert.equal((await call('GET', path, { token: platform })).status, 404, path);
  const [own] = await sql<{ id: number }[]>`select id from access_grant where scope = 'platform' limit 1`;
  assert.equal((await call('DELETE', `/grants/${String(own?.id)}`, { token: platform })).status, 404);
});

test('a grant is revoked only if its entity tag matches', async () => {
  const { clientId } = await letIn('Read');
  const address = `/grants/${String((await grantOf(clientId))['id'])}`;
  const stale = await call('DELETE', address, { token: platform, headers: { 'If-Match': '"1-other"' } });
  assert.equal(stale.status, 412);
  const headers = { 'If-Match': String((await call('GET', address, { token: platform })).headers.get('etag')) };
  assert.equal((await call('DELETE', address, { token: platform, headers })).status, 204);
});

test('grants can be filtered by their scope and store', async () => {
  const { clientId } = await letIn('Whole', { scope: 'user_full_access' });
  const grant = await grantOf(clientId);
  assert.deepEqual(
    [grant['scope'], grant['store_id'], grant._links['svc:store']],
    ['user_full_access', null, undefined],
  );
  const names = (await listed(account, '&scope=user_full_access&order=name')).map((one) => String(one['name']));
  assert.deepEqual(names, ['Mailer', 'Whole']);
});
