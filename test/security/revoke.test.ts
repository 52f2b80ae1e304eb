/** POST /revoke (RFC 7009): a client revokes its own tokens, and no others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, origin, client, other, newCode, redeem, token, read, alpha } = server;

const revoke = (form: Record<string, string> | string, headers: Record<string, string> = {}) =>
  fetch(`${origin}/revoke`, { method: 'POST', body: new URLSearchParams(form), headers });
async function errorOf(response: Response): Promise<unknown[]> {
  const body = (await response.json()) as Record<string, unknown>;
  return [response.status, body['error']];
}

async function newPair(): Promise<{ access: string; refresh: string }> {
  const { body } = await redeem(await newCode());
  return { access: String(body['access_token']), refresh: String(body['refresh_token']) };
}
const refresh = (refreshToken: string) =>
  token({ grant_type: 'refresh_token', refresh_token: refreshToken, ...client });
async function assertWorks({ access, refresh: refreshToken }: { access: string; refresh: string }): Promise<void> {
  assert.equal((await read(alpha, access)).status, 200);
  assert.equal((await refresh(refreshToken)).status, 200);
}

test('a revoked refresh token ends the grant: all its tokens, at the next request', async () => {
  const { access, refresh: refreshToken } = await newPair();
  const { body } = await refresh(refreshToken);
  const answer = await revoke({ token: refreshToken, ...client });
  assert.deepEqual([answer.status, await answer.json()], [200, {}]);
  for (const ended of [access, String(body['access_token'])]) assert.equal((await read(alpha, ended)).status, 401);
  assert.equal((await refresh(refreshToken)).body['error'], 'invalid_grant');
});

test('a revoked access token ends alone', async () => {
  const pair = await newPair();
  const { body } = await refresh(pair.refresh);
  assert.equal((await revoke({ token: pair.access, ...client })).status, 200);
  assert.equal((await read(alpha, pair.access)).status, 401);
  await assertWorks({ ...pair, access: String(body['access_token']) });
});

test("another client's refresh token is answered like a revoked one, and stays valid", async () => {
  const pair = await newPair();
  assert.equal((await revoke({ token: pair.refresh, ...other })).status, 200);
  await assertWorks(pair);
});

test("another client's access token is answered like a revoked one, and stays valid", async () => {
  const pair = await newPair();
  assert.equal((await revoke({ token: pair.access, ...other })).status, 200);
  await assertWorks(pair);
});

test('a malformed token is answered like a revoked one', async () => {
  const unknown = [`hal_at_${'a'.repeat(43)}`, `hal_rt_${'a'.repeat(43)}`, 'x', client.client_secret];
  for (const text of unknown) assert.equal((await revoke({ token: text, ...client })).status, 200, text);
});

test('the token_type_hint is ignored', async () => {
  for (const hint of ['access_token', 'refresh_token', 'nonsense']) {
    const pair = await newPair();
    assert.equal((await revoke({ token: pair.refresh, token_type_hint: hint, ...client })).status, 200);
    assert.equal((await read(alpha, pair.access)).status, 401, hint);
  }
});

test('a rotated token ends the grant as well', async () => {
  await sql`update client set rotates_refresh_tokens = true where client_id = ${client.client_id}`;
  const pair = await newPair();
  const { body } = await refresh(pair.refresh);
  await revoke({ token: pair.refresh, ...client });
  assert.equal((await refresh(String(body['refresh_token']))).body['error'], 'invalid_grant');
});

test('each revocation is in the audit once', async () => {
  const pair = await newPair();
  await sql`delete from audit`;
  for (const given of [pair.access, pair.access, pair.refresh, pair.refresh]) await revoke({ token: given, ...client });
  const rows = await sql`
    select a.action, a.user_id, c.client_id, a.store_id, a.address from audit a join client c on c.id = a.client
    order by a.id`;
  const { client_id } = client;
  const entry = { user_id: server.adaId, client_id, store_id: alpha, address: '127.0.0.1' };
  assert.deepEqual(
    [...rows],
    [
      { action: 'access_token_revoked', ...entry },
      { action: 'grant_revoked', ...entry },
    ],
  );
});

test('a confidential client needs its secret, also to revoke', async () => {
  const pair = await newPair();
  const { client_id } = client;
  assert.deepEqual(await errorOf(await revoke({ token: pair.refresh, client_id })), [401, 'invalid_client']);
  assert.deepEqual(await errorOf(await revoke({ token: pair.refresh })), [401, 'invalid_client']);
  await assertWorks(pair);
});

test('a request without a token, with two, or of another type is invalid_request', async () => {
  const invalid = [400, 'invalid_request'];
  assert.deepEqual(await errorOf(await revoke({ ...client })), invalid);
  const credentials = new URLSearchParams({ ...client }).toString();
  for (const twice of ['token=a&token=b', 'token=a&token_type_hint=access_token&token_type_hint=access_token'])
    assert.deepEqual(await errorOf(await revoke(`${credentials}&${twice}`)), invalid, twice);
  const json = { 'Content-Type': 'application/json' };
  assert.deepEqual(await errorOf(await revoke({ token: 'a', ...client }, json)), invalid);
});

test('any origin may call it, and reads no data of a person by it', async () => {
  const preflight = await fetch(`${origin}/revoke`, {
    method: 'OPTIONS',
    headers: { 'Access-Control-Request-Method': 'POST' },
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers.get('access-control-allow-origin'), '*');
  assert.equal(preflight.headers.get('access-control-allow-credentials'), null);
  const answer = await revoke({ token: 'x', ...client });
  assert.equal(answer.headers.get('access-control-allow-origin'), '*');
  const refused = await fetch(`${origin}/revoke`);
  const { error } = (await refused.json()) as { error: string };
  assert.deepEqual(
    [refused.status, refused.headers.get('access-control-allow-origin'), error],
    [405, '*', 'invalid_request'],
  );
});

test('a public client revokes by its client_id alone', async () => {
  const { client_id } = client;
  const pair = await newPair();
  await sql`update client set is_public = true where client_id = ${client_id}`;
  assert.equal((await revoke({ token: pair.refresh, client_id })).status, 200);
  assert.equal((await read(alpha, pair.access)).status, 401);
});
