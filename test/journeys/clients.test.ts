/** Clients by the platform and by the operator: over the API and on the command line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER, REDIRECT, startAuthorizationServer } from '../security/oauth-server.ts';
import { runCommand } from '../setup/command.ts';
import { urlOf } from '../setup/database.ts';

const server = await startAuthorizationServer();
const { sql, alpha, adaId, ada } = server;
const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
const platform = String(granted.body['access_token']);
const tokens = (await server.redeem(await server.newCode())).body;

type Representation = { _embedded?: Record<string, Record<string, unknown>[]> } & Record<string, unknown>;

type Asked = { token?: string; body?: object; headers?: Record<string, string> };

async function call(method: string, path: string, { token = platform, body, headers = {} }: Asked = {}) {
  const response = await fetch(server.origin + path, {
    method,
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const read = (text === '' ? {} : JSON.parse(text)) as Representation;
  const [location, caching] = ['location', 'cache-control'].map((name) => response.headers.get(name));
  return { status: response.status, location, caching, body: read };
}
const faultsOf = ({ body }: { body: Representation }) =>
  body._embedded?.['svc:errors']?.map(({ field, code }) => `${String(field)} ${String(code)}`);

/** Returns whether the client authenticates: with an invalid refresh token it then gets 400 and not 401. */
async function counts(clientId: unknown, secret: unknown): Promise<boolean> {
  const credentials = { client_id: String(clientId), client_secret: String(secret) };
  const form = { grant_type: 'refresh_token', refresh_token: 'none', ...credentials };
  return (await server.token(form)).status === 400;
}

test('a client that is created with Prefer: return=minimal gets its secret', async () => {
  const headers = { Prefer: 'return=minimal' };
  const made = await call('POST', '/clients', { body: { name: 'Made', redirect_uris: [REDIRECT] }, headers });
  assert.equal(await counts(made.body['client_id'], made.body['client_secret']), true);
});

test('the platform creates a client, and reads it again without its secret', async () => {
  const made = await call('POST', '/clients', { body: { name: 'Made', redirect_uris: [REDIRECT], company: 'Co' } });
  assert.equal(made.status, 201);
  const { client_id: clientId, client_secret: secret } = made.body;
  assert.equal(made.location, `${ISSUER}/clients/${String(clientId)}`);
  assert.equal(await counts(clientId, secret), true);
  assert.equal(made.caching, 'no-store');
  const { status, body, caching } = await call('GET', `/clients/${String(clientId)}`);
  assert.deepEqual([status, caching], [200, 'private, no-cache']);
  const { _links, client_id: _id, client_secret: shown, ...properties } = body;
  assert.equal(shown, null);
  assert.deepEqual(properties, {
    access_token: null,
    refresh_token: null,
    name: 'Made',
    company: 'Co',
    description: null,
    contact: null,
    redirect_uris: [REDIRECT],
    scopes: ['store_full_access', 'user_full_access'],
    logo: null,
    client_uri: null,
    policy_uri: null,
    tos_uri: null,
    initiate_login_uri: null,
    webhook_url: null,
    webhook_events: [],
    webhook_query: null,
    webhook_filter: null,
    webhook_stores_followed: null,
    webhook_stores_total: null,
    webhook_key: null,
    owner: null,
    is_public: false,
    is_trusted: false,
    is_verified: true,
    is_legacy: false,
    is_listed: false,
    rotates_refresh_tokens: false,
    requires_pkce: false,
    external_id: null,
    date_created: '2026-07-01T10:00:00+0000',
    date_modified: '2026-07-01T10:00:00+0000',
  });
});

test('a client that gets the url of its webhook later has the key in that response alone, also if it prefers none', async () => {
  const url = 'https://app.example.com/events';
  const key = /^whsec_[A-Za-z0-9+/]{43}=$/;
  const make = async () => {
    const { body } = await call('POST', '/clients', { body: { name: 'Made', redirect_uris: [REDIRECT] } });
    return `/clients/${String(body['client_id'])}`;
  };
  const client = await make();
  const changed = await call('PATCH', client, { body: { webhook_url: url }, headers: { Prefer: 'return=minimal' } });
  assert.equal(changed.status, 200);
  assert.match(String(changed.body['webhook_key']), key);
  const again = await call('PATCH', client, { body: { webhook_url: `${url}/2` } });
  assert.deepEqual([again.status, again.body['webhook_key']], [200, null]);
  const whole = { name: 'Made', redirect_uris: [REDIRECT], webhook_url: url };
  assert.match(String((await call('PUT', await make(), { body: whole })).body['webhook_key']), key);
});

test('a client declares the url of its webhook; only the response that creates it has the key', async () => {
  const create = (url: unknown) =>
    call('POST', '/clients', { body: { name: 'Made', redirect_uris: [REDIRECT], webhook_url: url } });
  const url = 'https://app.example.com/events';
  const made = await create(url);
  assert.equal(made.status, 201);
  assert.equal(made.body['webhook_url'], url);
  assert.match(String(made.body['webhook_key']), /^whsec_[A-Za-z0-9+/]{43}=$/);
  const { body } = await call('GET', `/clients/${String(made.body['client_id'])}`);
  assert.deepEqual([body['webhook_url'], body['webhook_key']], [url, null]);
  for (const [refused, code] of [
    ['https://app.example.com/events?token=1', 'invalid_value'],
    ['ftp://app.example.com/', 'invalid_value'],
    [`https://app.example.com/${'x'.repeat(1_000)}`, 'too_long'],
    ['http://127.0.0.1/', 'forbidden_address'],
  ] as const) {
    const error = await create(refused);
    const [fault] = (error.body['_embedded'] as Record<string, { code: string; field: string }[]>)['svc:errors'] ?? [];
    assert.deepEqual([error.status, fault?.code, fault?.field], [400, code, 'webhook_url'], refused);
  }
});

test('the platform registers the scopes of a client, and whether it requires PKCE', async () => {
  const scopes = ['store_read', 'transaction:read'];
  const body = { name: 'Limited', redirect_uris: [REDIRECT], scopes, requires_pkce: true };
  const made = await call('POST', '/clients', { body });
  assert.deepEqual([made.body['scopes'], made.body['requires_pkce']], [scopes, true]);
  for (const faulty of [[], ['store_read', 'orders:read'], ['platform']]) {
    const { status, body: error } = await call('POST', '/clients', { body: { ...body, scopes: faulty } });
    assert.equal(status, 400);
    assert.match(JSON.stringify(error), /scopes must be at least one of store_full_access/);
  }
});

test('the platform creates clients of every kind', async () => {
  const kinds = [
    { is_public: true, rotates_refresh_tokens: false },
    { is_legacy: '1' },
    { rotates_refresh_tokens: 1 },
    { owner: adaId, is_verified: false },
  ];
  const made = [];
  for (const kind of kinds)
    made.push((await call('POST', '/clients', { body: { name: 'Kind', redirect_uris: [REDIRECT], ...kind } })).body);
  const [open, legacy, rotating, owned] = made;
  assert.deepEqual(
    [open?.['is_public'], open?.['client_secret'], open?.['rotates_refresh_tokens']],
    [true, null, true],
  );
  assert.equal(legacy?.['is_legacy'], true);
  assert.equal(rotating?.['rotates_refresh_tokens'], true);
  assert.deepEqual([owned?.['owner'], owned?.['is_verified']], [adaId, false]);
});

for (const [what, body, faults] of [
  ['without a name', {}, ['name required', 'redirect_uris required']],
  [
    'with every error',
    { name: '', contact: 'x', redirect_uris: ['http://x.example'], colour: 'red' },
    ['colour unknown_property', 'name invalid_value', 'contact invalid_value', 'redirect_uris invalid_redirect_uri'],
  ],
  [
    'that is public and legacy',
    { name: 'X', is_public: true, is_legacy: true, redirect_uris: [REDIRECT] },
    ['is_public invalid_value'],
  ],
  [
    'that is legacy with two addresses',
    { name: 'X', is_legacy: true, redirect_uris: [REDIRECT, 'https://b.example'] },
    ['is_legacy invalid_value'],
  ],
  ['whose name changes the reading direction', { name: 'a\u202eb', redirect_uris: [REDIRECT] }, ['name invalid_value']],
] as const) {
  test(`a client ${what} is rejected`, async () => {
    const refused = await call('POST', '/clients', { body });
    assert.deepEqual([refused.status, faultsOf(refused)], [400, faults]);
  });
}

test('an unknown owner is an error of that field', async () => {
  const body = { name: 'X', redirect_uris: [REDIRECT], owner: 999_999_999 };
  const refused = await call('POST', '/clients', { body });
  assert.deepEqual([refused.status, faultsOf(refused)], [400, ['owner invalid_value']]);
});

/** Returns the audit entries of a client: the user concerned, the address and the program. */
async function actionsOn(clientId: unknown) {
  const rows = await sql<{ action: string; userId: number | null; address: string | null; by: number | null }[]>`
    select action, user_id as "userId", address, (detail->>'by_client')::bigint as by from audit
    where detail->>'client_id' = ${String(clientId)} order by id`;
  return rows.map(({ action, userId, address, by }) => [action, userId, address, by]);
}
const internalId = async (clientId: string) =>
  (await sql`select id from client where client_id = ${clientId}`)[0]?.['id'];

test('an action of a program on an app is in the audit of its owner, with the program', async () => {
  const body = { name: 'Watched', redirect_uris: [REDIRECT], owner: adaId };
  const { body: made } = await call('POST', '/clients', { body });
  await call('DELETE', `/clients/${String(made['client_id'])}`);
  const caller = await internalId(server.platform.client_id);
  assert.deepEqual(await actionsOn(made['client_id']), [
    ['client_created', adaId, '127.0.0.1', caller],
    ['client_deleted', adaId, '127.0.0.1', caller],
  ]);
});

test('an action of the operator on an app is in the audit of its owner', async () => {
  const { client_id: id } = await created('--owner', ada);
  await printed('client', 'verify', String(id));
  await printed('client', 'rotate-secret', String(id));
  await printed('client', 'delete', '--yes', String(id));
  const actions = ['client_created', 'client_changed', 'client_secret_rotated', 'client_deleted'];
  assert.deepEqual(
    await actionsOn(id),
    actions.map((action) => [action, adaId, null, null]),
  );
});

test('only the platform creates, lists and deletes clients, and other apps see only their own', async () => {
  const token = String(tokens['access_token']);
  const path = `/clients/${server.client.client_id}`;
  const body = { name: 'X', redirect_uris: [REDIRECT] };
  assert.equal((await call('POST', '/clients', { token, body })).status, 403);
  assert.equal((await call('GET', '/clients', { token })).status, 403);
  assert.equal((await call('GET', path, { token })).status, 404);
  assert.equal((await call('DELETE', path, { token })).status, 404);
  assert.equal((await call('GET', '/clients/unknown')).status, 404);
});

test('the platform cannot create a client with the role of the platform, with an owner or without', async () => {
  for (const owner of [adaId, null]) {
    const body = { name: 'Heir', redirect_uris: [REDIRECT], is_trusted: true, owner };
    const made = await call('POST', '/clients', { body });
    assert.deepEqual([made.status, made.body['is_trusted']], [201, false]);
    const credentials = {
      client_id: String(made.body['client_id']),
      client_secret: String(made.body['client_secret']),
    };
    const { body: refused } = await server.token({ grant_type: 'client_credentials', ...credentials });
    assert.equal(refused['error'], 'unauthorized_client');
  }
});

test('a client with the role of the platform can be given no owner, in whichever way it is written', async () => {
  const given = sql`update client set owner = ${adaId} where client_id = ${server.platform.client_id}`;
  await assert.rejects(given, { code: '23514' });
});

test('a client that the platform deletes is gone, with its tokens', async () => {
  const body = await printed('client', 'create', '--name', 'Gone', '--trusted');
  const credentials = { client_id: String(body['client_id']), client_secret: String(body['client_secret']) };
  const own = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...credentials });
  const token = String(own.body['access_token']);
  assert.equal((await call('GET', '/clients/unknown', { token })).status, 404);
  assert.equal((await call('DELETE', `/clients/${credentials.client_id}`)).status, 204);
  assert.equal((await call('GET', '/clients/unknown', { token })).status, 401);
  assert.equal((await call('DELETE', `/clients/${credentials.client_id}`)).status, 404);
});

function program(...args: string[]) {
  const settings = { DATABASE_URL: urlOf(server.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };
  return runCommand(args, settings);
}
async function printed(...args: string[]) {
  const { code, out, err } = await program(...args);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Record<string, unknown>;
}
const created = (...args: string[]) =>
  printed('client', 'create', '--name', 'Cli', '--redirect-uri', REDIRECT, ...args);

test('the operator creates clients of every kind', async () => {
  const owned = await created('--owner', ada.toUpperCase(), '--contact', 'me@example.com', '--description', 'Mails');
  const open = await created('--public');
  const legacy = await created('--legacy', '--rotate-refresh-tokens');
  assert.deepEqual(Object.keys(open), ['client_id']);
  const rows = await sql`
    select owner, contact, description, is_public, is_legacy, rotates_refresh_tokens, is_verified from client
    where client_id = any(${[owned, open, legacy].map(({ client_id: id }) => String(id))}) order by id`;
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      [adaId, 'me@example.com', 'Mails', false, false, false, true],
      [null, null, null, true, false, true, true],
      [null, null, null, false, true, true, true],
    ],
  );
});

test('the operator replaces a secret, with an overlap or without', async () => {
  const { client_id: id, client_secret: first } = await created();
  const second = await printed('client', 'rotate-secret', String(id));
  assert.equal(second['older_secret_ends_in_hours'], 24);
  assert.equal(await counts(id, second['client_secret']), true);
  const third = await printed('client', 'rotate-secret', String(id), '--now');
  assert.equal(await counts(id, third['client_secret']), true);
  const live = await sql`
    select from client_secret s join client c on c.id = s.client
    where c.client_id = ${String(id)} and (s.date_expires is null or s.date_expires > now())`;
  assert.equal(live.length, 1);
  assert.notEqual(first, third['client_secret']);
});

test('the operator verifies and deletes a client', async () => {
  const { body } = await call('POST', '/clients', {
    body: { name: 'V', redirect_uris: [REDIRECT], is_verified: false },
  });
  const id = String(body['client_id']);
  assert.deepEqual(await printed('client', 'verify', id), { client_id: id, verified: true });
  assert.equal((await call('GET', `/clients/${id}`)).body['is_verified'], true);
  assert.deepEqual(await printed('client', 'delete', '--yes', id), { client_id: id, deleted: true });
  assert.equal((await call('GET', `/clients/${id}`)).status, 404);
});

test('nothing is deleted without confirmation, at the terminal or by --yes', async () => {
  const { client_id: id } = await created();
  const { code, err } = await program('client', 'delete', String(id));
  assert.deepEqual([code, /--yes/.test(err)], [1, true], err);
  assert.equal((await call('GET', `/clients/${String(id)}`)).status, 200);
});

test('the operator invites a program, which registers a client, and withdraws the invitation', async () => {
  const { id, registration_token: token, days } = await printed('client', 'registration-token', '--days', '365');
  assert.equal(days, 365);
  server.wait(Date.now() - new Date('2026-07-01T10:00:00Z').getTime());
  const response = await fetch(`${server.origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${String(token)}` },
    body: JSON.stringify({ redirect_uris: [REDIRECT] }),
  });
  server.wait(new Date('2026-07-01T10:00:00Z').getTime() - Date.now());
  assert.equal(response.status, 201);
  const revoke = ['client', 'registration-token', '--revoke', String(id)];
  assert.deepEqual(await printed(...revoke), { id, revoked: true });
  assert.match((await program(...revoke)).err, /there is no such registration token/);
});

test('the operator removes a member from a store, and their grants end at once', async () => {
  const token = String(tokens['access_token']);
  assert.equal((await server.read(alpha, token)).status, 200);
  const removed = await printed('store', 'remove-member', String(alpha), String(adaId));
  assert.deepEqual(removed, { store_id: alpha, user_id: adaId, removed: true });
  assert.equal((await server.read(alpha, token)).status, 401);
  const again = await program('store', 'remove-member', String(alpha), String(adaId), '--json');
  const { error } = JSON.parse(again.err) as { error: { code: string } };
  assert.deepEqual([again.code, error.code], [1, 'not_found']);
});

test('each error is one line', async () => {
  const wrong = [
    [['create', '--name', 'X', '--owner', 'no@example.com'], /--owner: there is no user with/],
    [['create', '--name', 'X', '--redirect-uri', 'http://x.example'], /must be https:/],
    [['create', '--name', 'X', '--trusted', '--owner', ada], /owner cannot be combined with trusted/],
    [['rotate-secret', 'unknown'], /There is no such confidential client/],
  ] as const;
  const ends = await Promise.all(wrong.map(([args]) => program('client', ...args)));
  for (const [index, { code, err }] of ends.entries()) {
    assert.equal(code, 1);
    assert.match(err, wrong[index]?.[1] ?? /$^/);
    assert.equal(err.trim().split('\n').length, 1);
  }
});

const external = (key: string, changes: object = {}) =>
  call('POST', '/clients', { body: { name: 'Kept', redirect_uris: [REDIRECT], external_id: key, ...changes } });

test('a POST with a known external_id changes its client, and keeps its secret to itself', async () => {
  const made = await external('app-1', { company: 'Co', webhook_url: 'https://app.example.com/hook' });
  const { client_id: id, client_secret: secret, ...before } = made.body;
  assert.deepEqual([made.status, before['external_id']], [201, 'app-1']);
  server.wait(1_000);
  const same = await external('app-1', { webhook_url: 'https://app.example.com/hook' });
  assert.deepEqual([same.status, same.location], [200, null]);
  assert.deepEqual(same.body, { ...before, client_id: id, client_secret: null, webhook_key: null });
  const changed = await external('app-1', { name: 'Renamed', redirect_uris: [`${REDIRECT}2`], requires_pkce: true });
  const { name, redirect_uris: uris, requires_pkce: pkce, date_modified: modified } = changed.body;
  assert.deepEqual([name, uris, pkce], ['Renamed', [`${REDIRECT}2`], true]);
  assert.notEqual(modified, before['date_modified']);
  const rest = { redirect_uris: uris, requires_pkce: pkce, date_modified: modified };
  assert.deepEqual(changed.body, { ...same.body, name, ...rest });
  assert.equal(await counts(id, secret), true);
  const rows = await sql<{ changed: string }[]>`
    select detail->>'changed' as changed from audit where action = 'client_changed' and detail->>'client_id' = ${String(id)}`;
  assert.deepEqual([...rows], [{ changed: '["name", "redirect_uris", "requires_pkce"]' }]);
});

test('of concurrent POSTs with one new external_id one creates the client, with the only secret', async () => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => external('at once')));
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 200, 200, 200, 201],
  );
  assert.equal(new Set(answers.map(({ body }) => body['client_id'])).size, 1);
  assert.equal(answers.filter(({ body }) => body['client_secret'] !== null).length, 1);
});

test('the platform changes a client by PATCH, but not what it is', async () => {
  const made = await external('app-2', { is_public: true });
  const at = `/clients/${String(made.body['client_id'])}`;
  const changed = await call('PATCH', at, {
    body: { name: 'Patched', contact: 'dev@example.com', external_id: 'app-3' },
  });
  assert.deepEqual(
    ['name', 'contact', 'external_id', 'redirect_uris'].map((name) => changed.body[name]),
    ['Patched', 'dev@example.com', 'app-3', [REDIRECT]],
  );
  const { body: read } = await call('GET', at);
  assert.deepEqual((await call('PATCH', at, { body: read })).body, read);
  const kind = { is_public: false, is_legacy: true, owner: adaId, is_verified: false };
  const refused = await call('PATCH', at, { body: { ...kind, name: '' } });
  assert.equal(refused.status, 400);
  const fields = ['is_legacy', 'is_public', 'is_verified', 'name', 'owner'];
  assert.deepEqual(
    faultsOf(refused)?.toSorted(),
    fields.map((field) => `${field} invalid_value`),
  );
  assert.deepEqual((await call('GET', at)).body, read);
  await sql`update client set is_verified = false where client_id = ${String(made.body['client_id'])}`;
  assert.equal((await call('PATCH', at, { body: { name: 'Once more' } })).body['is_verified'], false);
  assert.equal((await external('app-3', { is_public: true, is_verified: true })).body['is_verified'], true);
  const found = await call('GET', '/clients?external_id=app-3');
  assert.equal(found.body['total_items'], '1');
  assert.equal((await call('GET', '/clients?external_id=app-2')).body['total_items'], '0');
});

test('a PUT of a client returns what it does not name to the initial values', async () => {
  const made = await external('app-5', { company: 'Co', is_listed: true, scopes: ['store_read'] });
  const at = `/clients/${String(made.body['client_id'])}`;
  const { body } = await call('PUT', at, { body: { name: 'Whole', redirect_uris: [REDIRECT] } });
  assert.deepEqual(
    ['name', 'company', 'is_listed', 'scopes', 'external_id', 'is_verified'].map((name) => body[name]),
    ['Whole', null, false, ['store_full_access', 'user_full_access'], null, true],
  );
  const unnamed = await call('PUT', at, { body: { redirect_uris: [REDIRECT] } });
  assert.deepEqual(faultsOf(unnamed), ['name required']);
});

test('a client of the operator is not changed by the platform, and the key of a deleted client is free', async () => {
  const refused = await call('PATCH', `/clients/${server.platform.client_id}`, {
    body: { name: 'Other', external_id: 'mine' },
  });
  assert.deepEqual([refused.status, faultsOf(refused)], [409, ['undefined client_of_operator']]);
  const made = await external('app-4');
  assert.equal((await call('DELETE', `/clients/${String(made.body['client_id'])}`)).status, 204);
  const again = await external('app-4');
  assert.deepEqual([again.status, again.body['client_id'] === made.body['client_id']], [201, false]);
});
