/** A token that ends is rejected at the next request by every process, though each has just accepted it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addMember } from '#stores/store.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { hiddenIn, newApp, REGISTERED, submit } from './page-forms.ts';

const server = await startAuthorizationServer();
const { sql, origin, browser, client, alpha, adaId, newCode, redeem } = server;
const second = await server.startSecond();

async function reads(token: string): Promise<number[]> {
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` };
  const answers = await Promise.all([origin, second].map((at) => fetch(`${at}/stores/${alpha}`, { headers })));
  return answers.map(({ status }) => status);
}
async function refreshes(token: string, credentials: Record<string, string>): Promise<number[]> {
  const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token, ...credentials });
  const answers = await Promise.all([origin, second].map((at) => fetch(`${at}/token`, { method: 'POST', body })));
  return answers.map(({ status }) => status);
}

type Pair = { access: string; refresh: string };
const pairOf = ({ body }: Awaited<ReturnType<typeof redeem>>): Pair => ({
  access: String(body['access_token']),
  refresh: String(body['refresh_token']),
});

async function assertEnded({ access, refresh }: Pair, end: () => Promise<unknown>, by = { ...client }) {
  assert.deepEqual(await reads(access), [200, 200]);
  await end();
  assert.deepEqual(await reads(access), [401, 401]);
  for (const status of await refreshes(refresh, by)) assert.ok(status === 400 || status === 401, String(status));
}

test('a revoked token is rejected at the next request in every process', async () => {
  const pair = pairOf(await redeem(await newCode()));
  const body = new URLSearchParams({ token: pair.refresh, ...client });
  await assertEnded(pair, () => fetch(`${origin}/revoke`, { method: 'POST', body }));
});

test('the token of a user who is disabled is rejected at the next request in every process', async () => {
  const pair = pairOf(await redeem(await newCode()));
  await assertEnded(pair, () => sql`update users set date_disabled = now() where id = ${adaId}`);
  await sql`update users set date_disabled = null where id = ${adaId}`;
});

test('the token of a user who is removed from the store is rejected at the next request in every process', async () => {
  const pair = pairOf(await redeem(await newCode()));
  await assertEnded(pair, () => sql`delete from membership where store_id = ${alpha} and user_id = ${adaId}`);
  await addMember(sql, { storeId: alpha, userId: adaId, role: 'owner', now: server.now() });
});

test('the token of a deleted client is rejected at the next request in every process', async () => {
  const { clientId, secret, path } = await newApp(browser);
  const own = { client_id: clientId, client_secret: secret };
  const code = await newCode({ client_id: clientId, redirect_uri: REGISTERED });
  const pair = pairOf(await redeem(code, { ...own, redirect_uri: REGISTERED }));
  await assertEnded(pair, () => submit(browser, `${path}/delete`, `${path}/delete`), own);
});

// Runs last, because Ada has another password afterwards.
test('apps that a new password disconnects are rejected at the next request in every process', async () => {
  const pair = pairOf(await redeem(await newCode()));
  const at = '/account/password';
  const hidden = hiddenIn(await browser.open(at), at);
  const fields = { current: 'correct horse battery', password: 'a battery, stapled', end_grants: '1' };
  await assertEnded(pair, () => browser.post(at, { ...hidden, ...fields }));
});
