/** Registration tokens: their use is limited, revocable and audited. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verifyClient } from '#identity/oauth/clients/client-change.ts';
import {
  createRegistrationToken,
  idOfInvitation,
  revokeRegistrationToken,
} from '#identity/oauth/registration/registration.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, browser } = server;
const START = server.now();
const DAY_MS = 86_400_000;
const minimal = { redirect_uris: ['https://new.example.com/cb'] };

async function register(body: object, headers: Record<string, string>) {
  const response = await fetch(`${server.origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body: answer };
}

async function invite() {
  const token = await createRegistrationToken(sql, { days: 7, now: START });
  return { token, id: idOfInvitation(token), bearer: { Authorization: `Bearer ${token}` } };
}

for (const by of ['id', 'token'] as const) {
  test(`a registration token can be revoked, by the ${by}`, async () => {
    const [invitation, other] = [await invite(), await invite()];
    assert.equal((await register(minimal, invitation.bearer)).status, 201);
    assert.equal(await revokeRegistrationToken(sql, invitation[by], START), invitation.id);
    assert.equal((await register(minimal, invitation.bearer)).status, 401);
    assert.equal((await register(minimal, other.bearer)).status, 201, 'the other one stays valid');
    assert.equal(await revokeRegistrationToken(sql, invitation[by], START), undefined);
  });
}

test('only a whole id revokes a token', async () => {
  const { id } = await invite();
  for (const text of ['', id.slice(0, 2), id.slice(0, -1), `${id}00`, '%', '\ud83d'])
    assert.equal(await revokeRegistrationToken(sql, text, START), undefined, text);
});

test('the audit shows which token was created, which client it created, and its end', async () => {
  const { id, bearer } = await invite();
  const { body } = await register(minimal, bearer);
  await revokeRegistrationToken(sql, id, START);
  const rows = await sql<{ action: string; client: string | null }[]>`
    select action, detail->>'client_id' as client from audit where detail->>'registration_token' = ${id} order by id`;
  assert.deepEqual(
    rows.map(({ action, client }) => [action, client]),
    [
      ['registration_token_created', null],
      ['client_created', body['client_id']],
      ['registration_token_revoked', null],
    ],
  );
});

test('the audit shows which client of the platform registered another', async () => {
  const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const { body } = await register(minimal, { Authorization: `Bearer ${String(granted.body['access_token'])}` });
  const rows = await sql`
    select c.client_id from audit a join client c on c.id = (a.detail->>'by_client')::bigint
    where a.detail->>'client_id' = ${String(body['client_id'])}`;
  assert.deepEqual([...rows], [{ client_id: server.platform.client_id }]);
});

test('a leaked token creates a hundred clients at most, rejected ones not counted', async () => {
  const leaked = (await invite()).bearer;
  for (let tries = 0; tries < 5; tries += 1) assert.equal((await register({}, leaked)).status, 400);
  for (let made = 0; made < 100; made += 1) assert.equal((await register(minimal, leaked)).status, 201);
  const refused = await register(minimal, leaked);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '180']);
  assert.equal((await register(minimal, (await invite()).bearer)).status, 201, 'another token is not limited');
});

/** Returns when a client is deleted unless it gets a grant before; null if it stays. */
async function unusedUntil(clientId: unknown) {
  const [row] = await sql`select unused_until from client where client_id = ${String(clientId)}`;
  return row?.['unused_until'] as Date | null;
}

test('a client without an owner waits thirty days for its first grant, or for the operator', async () => {
  const { body } = await register(minimal, (await invite()).bearer);
  assert.deepEqual(await unusedUntil(body['client_id']), new Date(START.getTime() + 30 * DAY_MS));
  await verifyClient(sql, String(body['client_id']), { userId: null, origin: null, now: START });
  assert.equal(await unusedUntil(body['client_id']), null);
  const own = await register(minimal, { Cookie: browser.cookie() ?? '', Origin: ISSUER });
  assert.equal(await unusedUntil(own.body['client_id']), null);
});
