/**
 * Two server processes over one database with concurrent clients: a hundred times, fifty requests that redeem the same code
 * or refresh the same token, spread over both.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { createClient, createPublicClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';
import { serversOver } from '../setup/server-process.ts';
import { passwords } from '../setup/passwords.ts';

const ROUNDS = 100;
const AT_ONCE = 50;
const CALLBACK = 'https://app.example.com/callback';
const VERIFIER = randomBytes(32).toString('base64url');

type Answer = { status: number; body: Record<string, unknown> };
type Client = { client_id: string; client_secret?: string };

const ends = cleanups();
const { sql, address } = await testDatabase(ends);

const [port, otherPort] = [await freePort(), await freePort()];
const issuer = `http://127.0.0.1:${port}`;
const start = serversOver(address, ends, { BASE_URL: issuer });
const servers = await Promise.all([start(port), start(otherPort)]);
const serverOf = (n: number): string => servers[n % servers.length]?.origin ?? '';

const now = new Date();
const person = { email: 'ada@example.com', password: PASSWORD, now };
const { id: userId } = await createUser(sql, passwords, person);
const shop = { name: 'Alpha', domain: 'alpha.example.com', email: 'shop@example.com', timeZone: 'UTC', now };
const { id: storeId } = await createStore(sql, shop);
await addMember(sql, { storeId, userId, role: 'owner', now });
const browser = createBrowser(issuer);
await browser.signIn(person.email);
const details = { name: 'App', redirectUris: [CALLBACK], trusted: false, now };

async function send(server: string, form: Record<string, string>): Promise<Answer> {
  const response = await fetch(`${server}/token`, { method: 'POST', body: new URLSearchParams(form) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** The same form, at once, to both servers in turn. */
const sendToBoth = (form: Record<string, string>): Promise<Answer[]> =>
  Promise.all(Array.from({ length: AT_ONCE }, (_, n) => send(serverOf(n), form)));

/** The request that redeems a new code of this client. */
async function newExchange(client: Client): Promise<Record<string, string>> {
  const asking = {
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: CALLBACK,
    scope: 'store_full_access',
    state: 'a state',
    code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
    code_challenge_method: 'S256',
  };
  const { location } = await browser.consent(asking);
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  return { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, code_verifier: VERIFIER, ...client };
}

/** The request that refreshes a new grant of this client. */
async function newRefresh(client: Client): Promise<Record<string, string>> {
  const { body } = await send(issuer, await newExchange(client));
  return { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...client };
}

const read = (server: string, accessToken: unknown): Promise<Response> =>
  fetch(`${server}/stores/${storeId}`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(accessToken)}` },
  });

const statusesOf = (answers: readonly { status: number }[]): number[] =>
  [...new Set(answers.map(({ status }) => status))].sort((a, b) => a - b);

const distinct = (answers: readonly Answer[], member: string): unknown[] => [
  ...new Set(answers.map(({ body }) => body[member])),
];

/** The numbers of codes, access tokens and refresh tokens of the grants of a client: each combination that exists. */
async function rowsPerGrant({ client_id: clientId }: Client): Promise<unknown[]> {
  const rows = await sql`
    select distinct
      (select count(*) from authorization_code a where a.grant_id = g.id) as codes,
      (select count(*) from access_token t where t.grant_id = g.id) as "accessTokens",
      (select count(*) from refresh_token r where r.grant_id = g.id) as "refreshTokens"
    from access_grant g join client c on c.id = g.client
    where c.client_id = ${clientId}
  `;
  return [...rows];
}

test('of fifty redemptions of a code in two processes one succeeds, and no other token is left', async () => {
  const client = await createClient(sql, details);
  for (let round = 0; round < ROUNDS; round += 1) {
    const answers = await sendToBoth(await newExchange(client));
    assert.deepEqual(statusesOf(answers), [200, 400]);
    const refused = answers.filter(({ status }) => status === 400);
    assert.equal(refused.length, AT_ONCE - 1);
    assert.deepEqual(distinct(refused, 'error'), ['invalid_grant']);
  }
  assert.deepEqual(await rowsPerGrant(client), [{ codes: 1, accessTokens: 1, refreshTokens: 1 }]);
});

test('fifty refreshes of a stable token in two processes all return valid tokens, and the same refresh token', async () => {
  const client = await createClient(sql, details);
  for (let round = 0; round < ROUNDS; round += 1) {
    const form = await newRefresh(client);
    const answers = await sendToBoth(form);
    assert.deepEqual(statusesOf(answers), [200]);
    assert.deepEqual(distinct(answers, 'refresh_token'), [form['refresh_token']]);
    // Each is used at the process that did not issue it.
    const calls = await Promise.all(answers.map(({ body }, n) => read(serverOf(n + 1), body['access_token'])));
    assert.deepEqual(statusesOf(calls), [200]);
  }
  assert.deepEqual(await rowsPerGrant(client), [{ codes: 1, accessTokens: AT_ONCE + 1, refreshTokens: 1 }]);
});

test('fifty refreshes of a rotating token in two processes return one successor, and it works', async () => {
  const client = await createPublicClient(sql, details);
  for (let round = 0; round < ROUNDS; round += 1) {
    const form = await newRefresh(client);
    const answers = await sendToBoth(form);
    assert.deepEqual(statusesOf(answers), [200]);
    const successors = distinct(answers, 'refresh_token');
    assert.equal(successors.length, 1);
    assert.notEqual(successors[0], form['refresh_token']);
    const next = await send(serverOf(round), { ...form, refresh_token: String(successors[0]) });
    assert.equal(next.status, 200);
  }
  assert.deepEqual(await rowsPerGrant(client), [{ codes: 1, accessTokens: AT_ONCE + 2, refreshTokens: 3 }]);
});
