/** Limited scopes from registration to refresh: which a client may ask for, what the user allows, what a token then says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { permissionTexts, userScopes } from '#identity/oauth/scope.ts';
import { readForm, REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer({ OPEN_REGISTRATION: '1' });
const { alpha, asking, browser, origin, read, redeem, sql, token } = server;
const now = server.now();

const READ = ['store_read', 'webhooks', 'customer:read'];
const reports = await createClient(sql, {
  name: 'Reports',
  redirectUris: [REDIRECT],
  scopes: [...READ, 'store_full_access'],
  trusted: false,
  now,
});

const requestOf = (scope: string, changes: Record<string, string | undefined> = {}) =>
  asking({ client_id: reports.client_id, scope, ...changes });
const parametersOf = (location: string | null): Record<string, string> =>
  Object.fromEntries(new URL(location ?? '').searchParams);

/** Returns the token response of an approval; `allowed` are the scopes that stay checked. */
async function connected(scope: string, allowed?: readonly string[]): Promise<Record<string, unknown>> {
  const { location } = await browser.consent(requestOf(scope), {}, allowed);
  const { status, body } = await redeem(parametersOf(location)['code'] ?? '', reports);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

const refresh = (refreshToken: unknown, scope?: string) =>
  token({
    grant_type: 'refresh_token',
    refresh_token: String(refreshToken),
    ...(scope !== undefined && { scope }),
    ...reports,
  });
const statusOf = async (path: string, accessToken: unknown, method = 'GET'): Promise<number> => {
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(accessToken)}` };
  return (await fetch(origin + path, { method, headers })).status;
};

test('a client may ask only for the scopes that it is registered for', async () => {
  const refused = async (query: Record<string, string>): Promise<void> => {
    const { location } = await browser.open(`/authorize?${new URLSearchParams(query).toString()}`);
    const { error, error_description: description } = parametersOf(location);
    assert.equal(error, 'invalid_scope');
    assert.equal(description, 'This application is not registered for a scope that it requested');
  };
  await refused(requestOf('events_read'));
  await refused(requestOf('store_read events_read'));
  await refused(requestOf('user_full_access'));
  for (const scope of permissionTexts().keys()) await refused(asking({ scope }));
  assert.equal((await browser.open(`/authorize?${new URLSearchParams(requestOf('webhooks')).toString()}`)).status, 200);
});

test('the consent page explains each scope in words and lets the user clear it', async () => {
  const { text } = await browser.open(`/authorize?${new URLSearchParams(requestOf(READ.join(' '))).toString()}`);
  for (const scope of READ) assert.match(text, new RegExp(`name="permission"\\s+value="${scope}"\\s+checked`));
  assert.match(text, /See everything in the store/);
  assert.match(text, /See the store&#39;s customers, with what is embedded in them/);
  const { text: single } = await browser.open(`/authorize?${new URLSearchParams(requestOf('store_read')).toString()}`);
  assert.doesNotMatch(single, /name="permission"/);
  assert.match(single, /See everything in the store/);
});

test('the user allows less than the client asked for, and the token response says so', async () => {
  const all = await connected(READ.toReversed().join(' '));
  assert.equal(all['scope'], `${READ.join(' ')} store_id_${alpha}`);
  const fewer = await connected(READ.join(' '), ['store_read']);
  assert.equal(fewer['scope'], `store_read store_id_${alpha}`);
  assert.equal(await statusOf(`/stores/${alpha}/webhooks`, fewer['access_token']), 200);
  assert.equal(await statusOf(`/stores/${alpha}/webhooks`, fewer['access_token'], 'POST'), 403);
  const [grant] = await sql<{ scope: string; permissions: string[] }[]>`
    select scope, permissions from access_grant order by id desc limit 1`;
  assert.deepEqual({ ...grant }, { scope: 'store_limited', permissions: ['store_read'] });
  const [entry] = await sql<{ detail: Record<string, string> }[]>`
    select detail from audit where action = 'grant_given' order by id desc limit 1`;
  assert.equal(entry?.detail['scope'], 'store_read');
});

test('the form grants nothing that was not asked for, and not nothing', async () => {
  const widened = await connected('store_read webhooks', ['store_read', 'customer:read', 'store_full_access']);
  assert.equal(widened['scope'], `store_read store_id_${alpha}`);
  const single = await connected('store_read', ['webhooks']);
  assert.equal(single['scope'], `store_read store_id_${alpha}`);
  for (const allowed of [[], ['customer:read'], ['platform']]) {
    const { status, text } = await browser.consent(requestOf('store_read webhooks'), {}, allowed);
    assert.equal(status, 422);
    assert.match(text, /Choose at least one permission/);
    assert.doesNotMatch(text, /name="permission"[^>]*checked/);
  }
});

test('what the user has cleared stays cleared when the page is shown again', async () => {
  const { status, text } = await browser.consent(requestOf('store_read webhooks'), { store: '1' }, ['webhooks']);
  assert.equal(status, 422);
  assert.deepEqual(readForm({ text, status, headers: new Headers(), location: null }).checked, ['webhooks']);
});

test('a refresh narrows its token and not the grant; a wider scope is refused', async () => {
  const { refresh_token: refreshToken } = await connected('store_read webhooks');
  const narrow = await refresh(refreshToken, 'webhooks');
  assert.equal(narrow.body['scope'], `webhooks store_id_${alpha}`);
  assert.equal(await statusOf(`/stores/${alpha}/members`, narrow.body['access_token']), 403);
  const whole = await refresh(refreshToken);
  assert.equal(whole.body['scope'], `store_read webhooks store_id_${alpha}`);
  assert.equal(await statusOf(`/stores/${alpha}/members`, whole.body['access_token']), 200);
  for (const wider of [
    'customer:read',
    'store_read customer:read',
    'store_full_access',
    'store_limited',
    'store_read x',
  ]) {
    const { status, body } = await refresh(refreshToken, wider);
    assert.deepEqual([status, body['error']], [400, 'invalid_scope'], wider);
  }
});

test('full access to a store narrows to any of its limited scopes, and not to an account', async () => {
  const { refresh_token: refreshToken, scope } = await connected('store_full_access');
  assert.equal(scope, `store_full_access store_id_${alpha}`);
  const narrow = await refresh(refreshToken, `events_read store_id_${alpha}`);
  assert.equal(narrow.body['scope'], `events_read store_id_${alpha}`);
  assert.equal(await statusOf(`/stores/${alpha}/events`, narrow.body['access_token']), 200);
  assert.equal(await statusOf(`/stores/${alpha}/webhooks`, narrow.body['access_token']), 403);
  assert.equal((await refresh(refreshToken, 'user_full_access')).body['error'], 'invalid_scope');
  assert.equal((await refresh(refreshToken)).body['scope'], scope);
});

test('introspection, the account page and the API name the limited scopes', async () => {
  const { access_token: access } = await connected('webhooks');
  const response = await fetch(`${origin}/introspect`, {
    method: 'POST',
    body: new URLSearchParams({ token: String(access), ...reports }),
  });
  assert.equal(((await response.json()) as Record<string, unknown>)['scope'], `webhooks store_id_${alpha}`);
  await sql`update access_grant set date_revoked = ${now} where permissions is distinct from array['webhooks']`;
  assert.match((await browser.open('/account')).text, /See, create and change webhooks/);
  const grants = await fetch(`${origin}/users/${server.adaId}/grants`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(access)}` },
  });
  assert.match(await grants.text(), /"scope": ?"webhooks"/);
  const filtered = await fetch(`${origin}/users/${server.adaId}/grants?scope=webhooks`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(access)}` },
  });
  assert.match(await filtered.text(), /"total_items": ?"?1/);
  assert.equal((await read(alpha, String(access))).status, 200);
});

test('a program registers the scopes of its client', async () => {
  const register = async (scope: string) => {
    const response = await fetch(`${origin}/register`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ redirect_uris: [REDIRECT], scope }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const made = await register('events_read transaction:read');
  assert.deepEqual([made.status, made.body['scope']], [201, 'events_read transaction:read']);
  const query = { client_id: String(made.body['client_id']), scope: 'events_read' };
  assert.equal((await browser.open(`/authorize?${new URLSearchParams(asking(query)).toString()}`)).status, 200);
  const faulty = await register('events_read orders:read');
  assert.deepEqual([faulty.status, faulty.body['error']], [400, 'invalid_client_metadata']);
});

test('the metadata list all scopes', async () => {
  const response = await fetch(`${origin}/.well-known/oauth-authorization-server`);
  const { scopes_supported: supported } = (await response.json()) as { scopes_supported: string[] };
  assert.deepEqual(supported, [...userScopes(), 'platform']);
});
