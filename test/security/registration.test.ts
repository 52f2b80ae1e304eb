/** POST /register: closed to unknown callers, open to authorized ones, and all errors are reported at once (RFC 7591). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { createBrowser, ISSUER, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, browser } = server;
const CALLBACK = 'https://new.example.com/cb';
const START = new Date('2026-07-01T10:00:00.000Z');
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

async function register(body: unknown, headers: Record<string, string> = {}, origin = server.origin) {
  const response = await fetch(`${origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body: answer };
}

const invitation = await createRegistrationToken(sql, { days: 7, now: START });
const invited = { Authorization: `Bearer ${invitation}` };
const minimal = { redirect_uris: [CALLBACK] };

async function rowOf(clientId: unknown) {
  const [row] = await sql`
    select owner, is_verified, is_public, trusted, contact, rotates_refresh_tokens from client
    where client_id = ${String(clientId)}`;
  return row;
}

const countClients = async (): Promise<unknown> => (await sql`select count(*) from client`)[0]?.['count'];

test('unknown callers are rejected, with how to authenticate', async () => {
  const before = await countClients();
  for (const headers of [{}, { Authorization: 'Basic eDp5' }, { Authorization: 'Bearer hal_it_nonsense' }]) {
    const answer = await register(minimal, headers);
    assert.deepEqual([answer.status, answer.body['error']], [401, 'invalid_token']);
    assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer /);
  }
  assert.equal(await countClients(), before);
});

test('a registration token creates clients without owner and unverified', async () => {
  const { status, headers, body } = await register(
    { ...minimal, client_name: 'New', contacts: ['dev@x.example'] },
    invited,
  );
  assert.equal(status, 201);
  assert.equal(headers.get('cache-control'), 'no-store');
  const { client_id: clientId, client_secret: secret, registration_access_token: token, ...rest } = body;
  assert.match(String(token), /^hal_mt_/);
  assert.match(String(secret), /^hal_cs_/);
  assert.deepEqual(rest, {
    client_secret_expires_at: 0,
    client_id_issued_at: START.getTime() / 1_000,
    registration_client_uri: `${ISSUER}/register/${String(clientId)}`,
    client_name: 'New',
    redirect_uris: [CALLBACK],
    contacts: ['dev@x.example'],
    token_endpoint_auth_method: 'client_secret_basic',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    scope: 'store_full_access user_full_access',
    requires_pkce: false,
  });
  assert.deepEqual(await rowOf(clientId), {
    owner: null,
    is_verified: false,
    is_public: false,
    trusted: false,
    contact: 'dev@x.example',
    rotates_refresh_tokens: false,
  });
});

test('a registered client can be used at once', async () => {
  const { body } = await register(minimal, invited);
  const credentials = { client_id: String(body['client_id']), client_secret: String(body['client_secret']) };
  const code = await server.newCode({ client_id: credentials.client_id, redirect_uri: CALLBACK });
  const { status } = await server.redeem(code, { ...credentials, redirect_uri: CALLBACK });
  assert.equal(status, 200);
});

test('a public client gets no secret', async () => {
  const { status, body } = await register({ ...minimal, token_endpoint_auth_method: 'none' }, invited);
  assert.equal(status, 201);
  assert.ok(!('client_secret' in body) && !('client_secret_expires_at' in body));
  const row = await rowOf(body['client_id']);
  assert.deepEqual([row?.['is_public'], row?.['rotates_refresh_tokens']], [true, true]);
});

test('a registration token expires after its days, and is stored as a hash', async () => {
  const rows = await sql`select t::text from registration_token t`;
  assert.ok(!JSON.stringify(rows).includes(invitation.slice('hal_it_'.length)));
  // A server of its own, since the clock goes back afterwards, and what was counted in the future stays counted.
  const short = { Authorization: `Bearer ${await createRegistrationToken(sql, { days: 7, now: START })}` };
  server.wait(7 * DAY_MS - 1_000);
  assert.equal((await register(minimal, short)).status, 201);
  server.wait(1_000);
  assert.equal((await register(minimal, short)).status, 401);
  server.wait(-7 * DAY_MS);
});

test('the platform registers verified clients; the token of an app registers none', async () => {
  const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const platform = { Authorization: `Bearer ${String(granted.body['access_token'])}` };
  const { status, body } = await register(minimal, platform);
  assert.equal(status, 201);
  assert.equal((await rowOf(body['client_id']))?.['is_verified'], true);
  const app = await server.redeem(await server.newCode());
  const refused = await register(minimal, { Authorization: `Bearer ${String(app.body['access_token'])}` });
  assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
});

test('a session on our own pages registers an app of its own', async () => {
  const cookie = { Cookie: browser.cookie() ?? '' };
  for (const own of [{ 'Sec-Fetch-Site': 'same-origin' }, { Origin: ISSUER }]) {
    const { status, body } = await register(minimal, { ...cookie, ...own });
    assert.equal(status, 201);
    const row = await rowOf(body['client_id']);
    assert.deepEqual([row?.['owner'], row?.['is_verified']], [server.adaId, false]);
  }
});

test('a session that was verified ten minutes ago registers nothing', async () => {
  const person = createBrowser(server.origin, { confirms: false });
  await person.signIn(server.bob);
  const then = new Date(START.getTime() - 10 * MINUTE_MS);
  await sql`update session set date_verified = ${then} where user_id = ${server.bobId}`;
  const before = await countClients();
  const own = { Cookie: person.cookie() ?? '', 'Sec-Fetch-Site': 'same-origin' };
  const { status, body } = await register(minimal, own);
  assert.deepEqual([status, body['error']], [403, 'confirmation_required']);
  assert.match(String(body['error_description']), /\/account\/confirm,/);
  assert.equal(await countClients(), before);
});

test('a session is rejected from another site', async () => {
  const cookie = { Cookie: browser.cookie() ?? '' };
  const before = await countClients();
  for (const foreign of [
    {},
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'cross-site', Origin: ISSUER },
    { Origin: 'https://evil.example' },
    { Origin: 'null' },
  ])
    assert.equal((await register(minimal, { ...cookie, ...foreign })).status, 401, JSON.stringify(foreign));
  assert.equal(await countClients(), before);
});

test('no other origin may read the answer', async () => {
  const response = await fetch(`${server.origin}/register`, {
    method: 'OPTIONS',
    headers: { Origin: 'https://x.example' },
  });
  assert.equal(response.headers.get('access-control-allow-origin'), null);
});

test('all errors are reported at once; one of an address is invalid_redirect_uri', async () => {
  const { status, body } = await register(
    {
      redirect_uris: ['http://x.example/cb', 'javascript:alert(1)'],
      client_name: 7,
      requires_pkce: 'yes',
      token_endpoint_auth_method: 'private_key_jwt',
      grant_types: ['implicit'],
      response_types: 'code',
      scope: 'platform',
      contacts: ['unknown'],
    },
    invited,
  );
  assert.deepEqual([status, body['error']], [400, 'invalid_redirect_uri']);
  for (const part of [
    /redirect_uris: address 1 [^;]*https:/,
    /redirect_uris: address 2 [^;]*https:/,
    /client_name [^;]*text/,
    /requires_pkce must be true or false/,
    /token_endpoint_auth_method [^;]*client_secret_basic, client_secret_post, none/,
    /grant_types [^;]*authorization_code and refresh_token /,
    /response_types [^;]*list/,
    /scope must be at least one of store_full_access, user_full_access, store_read/,
    /contacts [^;]*e-mail/,
  ])
    assert.match(String(body['error_description']), part);
});

test('malformed metadata are invalid_client_metadata', async () => {
  const hostile = [
    '',
    '[]',
    'null',
    '7',
    '{"a":1,"a":2}',
    '{"redirect_uris":["\\u0000"]}',
    '{'.repeat(10_000),
    '{"client_name":"\\ud800"}',
    JSON.stringify({ redirect_uris: Array.from({ length: 10_001 }, () => 1) }),
  ];
  for (const body of hostile) {
    const answer = await register(body, invited);
    assert.deepEqual([answer.status, answer.body['error']], [400, 'invalid_client_metadata'], body.slice(0, 20));
    assert.match(String(answer.body['error_description']), /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
  }
  const form = await register('redirect_uris=x', { ...invited, 'Content-Type': 'application/x-www-form-urlencoded' });
  assert.match(String(form.body['error_description']), /application\/json/);
});

test('the name of a client must be fully visible', async () => {
  for (const name of ['\u200b', '\u3164', '\u2800', 'Pay\u200bPal', 'Pay\u00adPal']) {
    const { status, body } = await register({ ...minimal, client_name: name }, invited);
    assert.deepEqual([status, body['error']], [400, 'invalid_client_metadata'], JSON.stringify(name));
    assert.match(String(body['error_description']), /^client_name must be/);
  }
});

test('unknown metadata are ignored, and nothing is fetched', async () => {
  const unknown = {
    logo_uri: 'https://new.example.com/logo.svg',
    tos_uri: 7,
    software_id: 'x',
    jwks: {},
    trusted: true,
    is_verified: true,
    owner: server.adaId,
  };
  const { status, body } = await register({ ...minimal, ...unknown }, invited);
  assert.equal(status, 201);
  assert.ok(!Object.keys(unknown).some((name) => name in body));
  assert.equal((await fetch(`${server.origin}/clients/${String(body['client_id'])}/logo`)).status, 404);
  const row = await rowOf(body['client_id']);
  assert.deepEqual([row?.['trusted'], row?.['is_verified'], row?.['owner']], [false, false, null]);
});

test('any caller may register twenty clients where that is open, rejected ones not counted, and then one each three minutes', async () => {
  const open = await startAuthorizationServer({ OPEN_REGISTRATION: 'true' });
  const statusFor = async (uri: string) => (await register({ redirect_uris: [uri] }, {}, open.origin)).status;
  for (let tries = 0; tries < 25; tries += 1) assert.equal(await statusFor('http://x.example'), 400);
  for (let made = 0; made < 20; made += 1) assert.equal(await statusFor(CALLBACK), 201);
  const refused = await register(minimal, {}, open.origin);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '180']);
  open.wait(180_000);
  assert.equal(await statusFor(CALLBACK), 201);
  const rows = await open.sql`select from client where name = 'Unnamed app' and owner is null and not is_verified`;
  assert.equal(rows.length, 21);
});
