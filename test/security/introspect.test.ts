/** POST /introspect (RFC 7662): the state of a token, for its client and for the platform. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, origin, client, other, platform, newCode, redeem, token, wait, alpha } = server;

async function introspect(form: Record<string, string> | string, headers: Record<string, string> = {}) {
  const response = await fetch(`${origin}/introspect`, { method: 'POST', body: new URLSearchParams(form), headers });
  return { status: response.status, headers: response.headers, body: await response.json() };
}
const bearer = (value: string) => ({ Authorization: `Bearer ${value}` });
const platformToken = async () =>
  String((await token({ grant_type: 'client_credentials', ...platform })).body['access_token']);

async function newPair(): Promise<{ access: string; refresh: string }> {
  const { body } = await redeem(await newCode());
  return { access: String(body['access_token']), refresh: String(body['refresh_token']) };
}
const INACTIVE = { active: false };
const START_SECONDS = Date.parse('2026-07-01T10:00:00.000Z') / 1_000;
const granted = {
  active: true,
  scope: `store_full_access store_id_${alpha}`,
  client_id: client.client_id,
  sub: String(server.adaId),
  iss: ISSUER,
};

test('an access token shows its user, its scope and its expiry', async () => {
  const { access } = await newPair();
  const { status, headers, body } = await introspect({ token: access, ...client });
  assert.equal(status, 200);
  assert.equal(headers.get('cache-control'), 'no-store');
  assert.deepEqual(body, { ...granted, iat: START_SECONDS, exp: START_SECONDS + 7_200, token_type: 'Bearer' });
});

test('a refresh token shows the same, and is not accepted as an access token', async () => {
  const { refresh } = await newPair();
  const { body } = await introspect({ token: refresh, token_type_hint: 'access_token', ...client });
  assert.deepEqual(body, { ...granted, exp: START_SECONDS + 365 * 86_400 });
});

test('a client sees no token of another client', async () => {
  const { access, refresh } = await newPair();
  for (const value of [access, refresh])
    assert.deepEqual((await introspect({ token: value, ...other })).body, INACTIVE);
});

test('the platform sees all tokens, its own too, which has no user', async () => {
  const { access } = await newPair();
  const own = await platformToken();
  assert.deepEqual((await introspect({ token: access }, bearer(own))).body, {
    ...granted,
    iat: START_SECONDS,
    exp: START_SECONDS + 7_200,
    token_type: 'Bearer',
  });
  assert.deepEqual((await introspect({ token: own }, bearer(own))).body, {
    active: true,
    scope: 'platform',
    client_id: platform.client_id,
    iat: START_SECONDS,
    exp: START_SECONDS + 7_200,
    token_type: 'Bearer',
    iss: ISSUER,
  });
});

test('an unknown token, a code or a secret is inactive, without further members', async () => {
  for (const value of ['x', `hal_at_${'a'.repeat(43)}`, await newCode(), client.client_secret])
    assert.deepEqual((await introspect({ token: value, ...client })).body, INACTIVE);
});

test('a token is inactive the moment it expires', async () => {
  const { access } = await newPair();
  wait(7_199_000);
  assert.equal(((await introspect({ token: access, ...client })).body as typeof INACTIVE).active, true);
  wait(1_000);
  assert.deepEqual((await introspect({ token: access, ...client })).body, INACTIVE);
  wait(-7_200_000);
});

// Each change is undone, so that no case depends on another.
const ends: [what: string, end: () => Promise<unknown>, undo: () => Promise<unknown>][] = [
  [
    'the grant is revoked',
    () => sql`update access_grant set date_revoked = now()`,
    () => sql`update access_grant set date_revoked = null`,
  ],
  [
    'the user is disabled',
    () => sql`update users set date_disabled = now()`,
    () => sql`update users set date_disabled = null`,
  ],
  [
    'the membership has ended',
    () => sql`update membership set user_id = ${server.bobId} where store_id = ${alpha}`,
    () => sql`update membership set user_id = ${server.adaId} where store_id = ${alpha}`,
  ],
];
for (const [what, end, undo] of ends) {
  test(`a token is inactive when ${what}`, async () => {
    const pair = await newPair();
    await end();
    for (const value of [pair.access, pair.refresh])
      assert.deepEqual((await introspect({ token: value, ...client })).body, INACTIVE);
    await undo();
    assert.equal(((await introspect({ token: pair.access, ...client })).body as typeof INACTIVE).active, true);
  });
}

test('a refresh token that was rotated is inactive', async () => {
  await sql`update client set rotates_refresh_tokens = true where client_id = ${client.client_id}`;
  const { refresh } = await newPair();
  await token({ grant_type: 'refresh_token', refresh_token: refresh, ...client });
  assert.deepEqual((await introspect({ token: refresh, ...client })).body, INACTIVE);
});

test('a caller without a secret or a token of the platform is rejected', async () => {
  const { access } = await newPair();
  const errorOf = async (form: Record<string, string>, headers = {}) => {
    const { status, body } = await introspect({ token: access, ...form }, headers);
    return [status, (body as Record<string, unknown>)['error']];
  };
  assert.deepEqual(await errorOf({}), [401, 'invalid_client']);
  assert.deepEqual(await errorOf({ client_id: client.client_id }), [401, 'invalid_client']);
  assert.deepEqual(await errorOf({}, bearer('x')), [401, 'invalid_token']);
  assert.deepEqual(await errorOf({}, bearer(access)), [403, 'insufficient_scope']);
});

test('a public client is rejected', async () => {
  const { client_id } = other;
  await sql`update client set is_public = true, rotates_refresh_tokens = true where client_id = ${client_id}`;
  const { status, body } = await introspect({ token: 'x', client_id });
  assert.deepEqual([status, (body as Record<string, unknown>)['error']], [401, 'invalid_client']);
  const basic = { Authorization: `Basic ${Buffer.from(`${client_id}:`).toString('base64')}` };
  const { headers } = await introspect({ token: 'x' }, basic);
  assert.match(headers.get('www-authenticate') ?? '', /^Basic /);
});

test('the answer to a rejected bearer token has WWW-Authenticate', async () => {
  const { access } = await newPair();
  const { headers } = await introspect({ token: access }, bearer(access));
  assert.match(headers.get('www-authenticate') ?? '', /^Bearer .*error="insufficient_scope"/);
});

test('pages of other origins cannot read it', async () => {
  const { headers } = await introspect({ token: 'x', ...client });
  assert.equal(headers.get('access-control-allow-origin'), null);
});

test('a request without a token, or with two, is invalid_request', async () => {
  const credentials = new URLSearchParams({ ...client }).toString();
  for (const form of [credentials, `${credentials}&token=a&token=b`]) {
    const { status, body } = await introspect(form);
    assert.deepEqual([status, (body as Record<string, unknown>)['error']], [400, 'invalid_request']);
  }
});
