/** Connected apps: only their user sees them, and a revoked one ends at the next request in every process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPERATOR } from '#changelog/changelog.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { createBrowser, ISSUER, REDIRECT, startAuthorizationServer } from './oauth-server.ts';
import { hiddenIn } from './page-forms.ts';

const server = await startAuthorizationServer();
const { browser, sql, alpha, beta, adaId } = server;
const second = await server.startSecond();

/** Creates a client that Ada gives access with this scope and store. */
async function letIn(changes: Record<string, string> = {}, store = alpha, name = 'Connector') {
  const client = await createClient(sql, { name, redirectUris: [REDIRECT], trusted: false, now: new Date() });
  const allow = async () => {
    const { location } = await browser.consent(server.asking({ client_id: client.client_id, ...changes }), {
      store: String(store),
    });
    const code = new URL(location ?? '').searchParams.get('code') ?? '';
    const { body } = await server.redeem(code, client);
    return String(body['access_token']);
  };
  return { client, allow, token: await allow() };
}

async function grantOf(clientId: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select max(g.id) as id from access_grant g join client c on c.id = g.client where c.client_id = ${clientId}`;
  return row?.id ?? NaN;
}

async function revoke(clientId: string) {
  const action = `/account/connected/${await grantOf(clientId)}/revoke`;
  return browser.post(action, hiddenIn(await browser.open('/account'), action));
}

/** Returns the entry of an app in the list, as text. */
async function entryOf(name: string, from = browser): Promise<string> {
  const [text = ''] = (await from.open('/account')).text.split('id="activity"');
  return text.split('<li>').find((entry) => entry.includes(`<strong>${name}</strong>`)) ?? '';
}

async function reads(origin: string, token: string): Promise<number> {
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` };
  return (await fetch(`${origin}/stores/${alpha}`, { headers })).status;
}

test('the list shows the scope, the store, the date and the last use of each app', async () => {
  const { token } = await letIn({}, alpha, 'Shown');
  const unused = await entryOf('Shown');
  assert.match(unused, /Alpha/);
  assert.match(unused, /<dt>Since<\/dt>\s*<dd><time datetime="2026-07-01T10:00:00\.000Z">/);
  assert.match(unused, /<dt>Last used<\/dt>\s*<dd>Never<\/dd>/);
  server.wait(60_000);
  await server.read(alpha, token);
  assert.match(await entryOf('Shown'), /<dt>Last used<\/dt>\s*<dd><time datetime="2026-07-01T10:01:00\.000Z">/);
});

test('access to the whole account is named as such', async () => {
  await letIn({ scope: 'user_full_access' }, alpha, 'Whole');
  assert.match(await entryOf('Whole'), /Your account and all your stores/);
});

test('an app for a store that its user has left has no access, and can be revoked all the same', async () => {
  const { client } = await letIn({}, beta, 'Left behind');
  const member = sql`store_id = ${beta} and user_id = ${adaId}`;
  const [row] = await sql`delete from membership where ${member} returning *`;
  assert.match(await entryOf('Left behind'), /<dt>Access to<\/dt>\s*<dd>Nothing[^<]* Beta<\/dd>/);
  await sql`insert into membership select * from jsonb_populate_record(null::membership, ${sql.json(row)})`;
  assert.match(await entryOf('Left behind'), /<dt>Access to<\/dt>\s*<dd>Beta<\/dd>/);
  await revoke(client.client_id);
});

test('each user sees only their own connected apps', async () => {
  await letIn({}, alpha, 'Private');
  const bob = createBrowser(server.origin);
  await bob.signIn(server.bob);
  assert.notEqual(await entryOf('Private'), '');
  assert.equal(await entryOf('Private', bob), '');
});

test('a revoked app ends at the next request, in every process, and leaves the list', async () => {
  const { client, token } = await letIn({}, alpha, 'Ended');
  assert.deepEqual([await reads(server.origin, token), await reads(second, token)], [200, 200]);
  assert.equal((await revoke(client.client_id)).location, '/account?done=disconnected');
  assert.match((await browser.open('/account?done=disconnected')).text, /role="status">App disconnected/);
  assert.deepEqual([await reads(server.origin, token), await reads(second, token)], [401, 401]);
  assert.equal(await entryOf('Ended'), '');
});

test('several grants of one app for one store are one entry, which ends them all', async () => {
  const { client, allow, token } = await letIn({}, alpha, 'Often');
  const again = await allow();
  assert.equal((await browser.open('/account')).text.split('Disconnect Often from').length - 1, 1);
  await revoke(client.client_id);
  assert.deepEqual([await reads(server.origin, token), await reads(server.origin, again)], [401, 401]);
});

test('revoking an app in one store leaves it in another', async () => {
  const { client, token } = await letIn({}, alpha, 'Two stores');
  const other = await browser.consent(server.asking({ client_id: client.client_id }), { store: String(beta) });
  assert.equal(other.status, 303);
  await revoke(client.client_id);
  assert.equal(await reads(server.origin, token), 200);
  assert.match(await entryOf('Two stores'), /Alpha/);
});

test('another user, a forged post and an invented grant end nothing', async () => {
  const { client, token } = await letIn();
  const action = `/account/connected/${await grantOf(client.client_id)}/revoke`;
  const hidden = hiddenIn(await browser.open('/account'), action);
  const bob = createBrowser(server.origin);
  await bob.signIn(server.bob);
  assert.equal((await bob.post(action, hidden)).status, 403);
  assert.equal((await browser.post(action, { nonce: 'x' })).status, 403);
  assert.equal((await browser.post(action, hidden, { 'Sec-Fetch-Site': 'cross-site' })).status, 403);
  for (const id of ['0', '1', 'x', '%00']) {
    const answer = await browser.post(`/account/connected/${id}/revoke`, hidden);
    assert.ok(answer.status === 403 || answer.status === 404, id);
  }
  assert.equal(await reads(server.origin, token), 200);
});

test('a second click is no error', async () => {
  const { client } = await letIn();
  const action = `/account/connected/${await grantOf(client.client_id)}/revoke`;
  const hidden = hiddenIn(await browser.open('/account'), action);
  assert.equal((await browser.post(action, hidden)).status, 303);
  assert.equal((await browser.post(action, hidden)).status, 303);
  const [row] = await sql`
    select count(*) from audit a join client c on c.id = a.client
    where a.action = 'grant_revoked' and c.client_id = ${client.client_id}`;
  assert.equal(row?.['count'], 1);
});

test('all grants of one user end together, each in the audit, and no grant of another user', async () => {
  const { token } = await letIn();
  const [{ live } = { live: 0 }] = await sql<{ live: number }[]>`
    select count(*) as live from access_grant where user_id = ${adaId} and date_revoked is null`;
  const [before] = await sql`select count(*) from audit where action = 'grant_revoked'`;
  const native = openInternalEvents({ baseUrl: ISSUER });
  const end = (userId: number) =>
    sql.begin((tx) => revokeGrantsOf(tx, native, { userId, actor: OPERATOR, origin: null, now: server.now() }));
  assert.equal(await end(server.bobId), 0);
  assert.equal(await end(adaId), live);
  const [after] = await sql`select count(*) from audit where action = 'grant_revoked'`;
  assert.equal(Number(after?.['count']) - Number(before?.['count']), live);
  assert.equal(await reads(server.origin, token), 401);
});
