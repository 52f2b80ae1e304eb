/**
 * Two processes while HALCYON_SECRET_KEY changes: each has both keys, the one seals with the old and the other with the new
 * one. A client that uses one and then the other sees no difference.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDevices } from '#identity/accounts/throttle.ts';
import { resealAll } from '../../src/cli/rekey.ts';
import { homeOf } from '../setup/suite-map.ts';
import { createBrowser, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { hiddenIn } from './page-forms.ts';

const [old, fresh] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
const server = await startAuthorizationServer({}, { secretKeys: [old, fresh] });
const { sql, client, platform, alpha, ada, browser, newCode, redeem, asking } = server;
const here = server.origin;
const there = await server.startSecond([fresh, old]);
const silent = { pause: async () => {}, isStopped: () => false, onProgress: () => {} };
await resealAll(homeOf(sql), [fresh, old], silent);
const afterwards = await server.startSecond([fresh]);

const token = String((await redeem(await newCode())).body['access_token']);
async function post(origin: string, path: string, { body, key, bearer = token }: Record<string, string>) {
  const response = await fetch(origin + path, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${bearer}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': key ?? '',
    },
    body: body ?? '',
  });
  return { status: response.status, text: await response.text() };
}
async function ask(origin: string, form: Record<string, string>) {
  const response = await fetch(`${origin}/token`, { method: 'POST', body: new URLSearchParams(form) });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

const WEBHOOK = { name: 'Orders', format: 'json', encryption_key: 'a secret that must not lie around' };

test('a resource created under an Idempotency-Key is not created again by the process with the other key', async () => {
  const path = `/stores/${alpha}/webhooks`;
  const body = JSON.stringify(WEBHOOK);
  for (const [first, second] of [
    [here, there],
    [there, here],
  ] as const) {
    const key = `made by ${first}`;
    const made = await post(first, path, { body, key });
    const again = await post(second, path, { body, key });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual(again, made);
    const other = await post(second, path, { body: JSON.stringify({ ...WEBHOOK, name: 'Other' }), key });
    assert.equal(other.status, 422, other.text);
    const at = `/webhooks/${(JSON.parse(made.text) as { id: string }).id}`;
    const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` };
    const seen = (await (await fetch(second + at, { headers })).json()) as Record<string, unknown>;
    assert.equal(seen['encryption_key'], WEBHOOK.encryption_key, 'and its key opens there');
  }
});

test('an event published under a key is not published again by the process with the other key', async () => {
  const bearer = (await ask(here, { grant_type: 'client_credentials', ...platform })).body['access_token'] ?? '';
  const path = `/stores/${alpha}/events`;
  const event = (id: number) => JSON.stringify({ event: 'transaction/created', resource: { id } });
  const first = await post(here, path, { body: event(1), key: 'one', bearer });
  assert.equal(first.status, 201, first.text);
  assert.deepEqual(await post(there, path, { body: event(1), key: 'one', bearer }), first);
  assert.equal((await post(there, path, { body: event(2), key: 'one', bearer })).status, 422);
  // A process with the new key alone cannot know it: that is why the old one is kept for a day.
  assert.equal((await post(afterwards, path, { body: event(1), key: 'one', bearer })).status, 422);
});

test('a refresh token that is presented again at the process with the other key has the same successor', async () => {
  await sql`update client set rotates_refresh_tokens = true where client_id = ${client.client_id}`;
  const pair = (await redeem(await newCode())).body;
  const form = { grant_type: 'refresh_token', refresh_token: String(pair['refresh_token']), ...client };
  const count = async () => (await sql<{ n: number }[]>`select count(*) as n from refresh_token`)[0]?.n ?? NaN;
  const before = await count();
  const first = await ask(here, form);
  const again = await ask(there, form);
  assert.deepEqual([first.status, again.status], [200, 200]);
  assert.equal(again.body['refresh_token'], first.body['refresh_token']);
  assert.equal(await count(), before + 1);
  const next = await ask(there, { ...form, refresh_token: first.body['refresh_token'] ?? '' });
  assert.equal(next.status, 200, JSON.stringify(next.body));
});

test('a response that was lost before the key was forgotten is followed by another successor, and the former one is ended', async () => {
  await sql`update client set rotates_refresh_tokens = true where client_id = ${client.client_id}`;
  const pair = (await redeem(await newCode())).body;
  const form = { grant_type: 'refresh_token', refresh_token: String(pair['refresh_token']), ...client };
  const lost = (await ask(here, form)).body['refresh_token'] ?? '';
  const retried = (await ask(afterwards, form)).body['refresh_token'] ?? '';
  assert.notEqual(retried, lost);
  assert.equal((await ask(afterwards, form)).body['refresh_token'], retried);
  assert.equal((await ask(afterwards, { ...form, refresh_token: lost })).status, 400);
  const after = await ask(afterwards, { ...form, refresh_token: retried });
  assert.equal(after.status, 400, 'the grant has ended');
});

/** The same browser at another process, which has the same address in production. */
function moved(from: Browser, origin: string): Browser {
  const to = createBrowser(origin);
  for (const [name, value] of from.jar) to.jar.set(name, value);
  return to;
}

test('a form of one process is accepted by the process with the other key', async () => {
  const query = new URLSearchParams(asking()).toString();
  const page = await browser.open(`/authorize?${query}`);
  const action = /<form method="post" action="([^"]*)"/.exec(page.text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  const nonce = /name="nonce" value="([^"]*)"/.exec(page.text)?.[1] ?? '';
  const decided = await moved(browser, there).post(action, { nonce, decision: 'deny' });
  assert.match(decided.location ?? '', /error=access_denied/);
  assert.equal((await moved(browser, afterwards).post(action, { nonce, decision: 'deny' })).status, 403);

  const hidden = hiddenIn(await browser.open('/account/password'), '/account/password');
  const wrong = { ...hidden, current: 'not the password', password: 'another battery, stapled' };
  assert.equal((await moved(browser, there).post('/account/password', wrong)).status, 422);
  assert.equal((await moved(browser, afterwards).post('/account/password', wrong)).status, 403);
});

test('a browser that signed in to one process is a known device at the process with the other key', () => {
  const account = { email: ada, passwordHash: 'a hash' };
  const devicesWith = (...keys: [Buffer, ...Buffer[]]) => createDevices({ keys, authUrl: here });
  const [set = ''] = devicesWith(old).remember({ cookies: {}, now: server.now() }, account);
  const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
  const request = { cookies: { [name]: value }, now: server.now() };
  assert.equal(devicesWith(fresh, old).recognize(request, account), value.split('.')[0]);
  assert.equal(devicesWith(fresh).recognize(request, account), undefined);
});
