/** The account page: what it shows, to whom, and that nothing of it is markup that came from outside. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '#accounts/account.ts';
import { recordDeed } from '#accounts/audit/audit.ts';
import { createPasswords } from '#accounts/passwords.ts';
import { createSessions } from '#accounts/sessions.ts';
import { createSignedIn } from '#accounts/signed-in.ts';
import { createUser } from '#accounts/users.ts';
import type { DoorRequest } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, ada, bob } = server;
const passwords = createPasswords({ hashesAtOnce: 1 });
const newBrowser = () => createBrowser(server.origin);

const rowsOf = (text: string): string[] =>
  [...text.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );

test('nobody who is not signed in sees an account, and whoever signs in comes back to it', async () => {
  const { status, location } = await newBrowser().open('/account?x=1');
  assert.deepEqual([status, location], [303, '/sign-in?return_to=%2Faccount%3Fx%3D1']);
});

test('the latest activity stands there in words, with where and by what', async () => {
  const browser = newBrowser();
  const agent = { 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' };
  await browser.post('/sign-in', { email: bob, password: 'wrong password' }, agent);
  await browser.post('/sign-in', { email: bob, password: PASSWORD }, agent);
  const { text } = await browser.open('/account');
  const [, signedIn, failed, made] = rowsOf(text);
  assert.equal(signedIn, 'Signed in 1 July 2026 at 10:00 UTC 127.0.0.1 Firefox on Linux');
  assert.equal(failed, 'A wrong password was given 1 July 2026 at 10:00 UTC 127.0.0.1 Firefox on Linux');
  assert.equal(made, 'The account was made 1 July 2026 at 10:00 UTC the operator');
});

test('twenty rows are shown, the latest first, and nobody else’s', async () => {
  const browser = newBrowser();
  await browser.signIn(bob);
  const deed = { action: 'signed_in', userId: server.bobId, origin: null, now: server.now() } as const;
  for (let i = 0; i < 22; i += 1) await recordDeed(sql, deed);
  const { text } = await browser.open('/account');
  const rows = rowsOf(text);
  assert.equal(rows.length, 21, 'with the heading');
  assert.ok(!text.includes(ada));
});

test('what somebody is called and what their browser says of itself is text', async () => {
  const email = '"><script>alert(1)</script>@example.com';
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser();
  const agent = { 'User-Agent': '<img src=x onerror=alert(2)>' };
  const wrong = await browser.post('/sign-in', { email, password: 'wrong password' }, agent);
  assert.equal((await browser.post('/sign-in', { email, password: PASSWORD }, agent)).status, 303);
  const sent = await browser.post('/forgot-password', { email });
  for (const page of [wrong, await browser.open('/account'), await browser.open('/account/password'), sent])
    assert.doesNotMatch(page.text, /<script|<img/);
  const { text } = await browser.open('/account');
  assert.ok(text.includes('&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;@example.com'));
  assert.ok(text.includes('&lt;img src=x onerror=alert(2)&gt;'));
});

test('the pages may not be framed, cached, sent on or scripted', async () => {
  const browser = newBrowser();
  await browser.signIn(bob);
  for (const path of [
    '/account',
    '/account/password',
    '/forgot-password',
    '/reset-password',
    '/sign-in?return_to=/x',
  ]) {
    const { headers } = await browser.open(path);
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /^default-src 'none'; .*frame-ancestors 'none'/, path);
    assert.doesNotMatch(policy, /script-src|unsafe/, path);
    assert.equal(headers.get('cache-control'), 'no-store', path);
    assert.equal(headers.get('referrer-policy'), 'no-referrer', path);
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
    assert.equal(headers.get('access-control-allow-origin'), null, path);
  }
});

test('other rooms say their part in the order they were given, with nonces of this session', async () => {
  const sessions = createSessions({ sql, authUrl: server.origin, lifetimeDays: 30 });
  const signedIn = createSignedIn({ sessions, authUrl: server.origin, nonceKey: Buffer.alloc(32, 3) });
  const part = (name: string) => async (visit: { nonce: (bound: readonly string[]) => string; root: string }) =>
    html`<p>${name} ${visit.nonce(['form'])} ${visit.root}</p>`;
  const show = createAccount({ sql, signedIn, sections: [part('first'), part('second')], root: '/auth' });
  const browser = newBrowser();
  await browser.signIn(bob);
  const cookies = Object.fromEntries(browser.jar);
  const request = { cookies, now: server.now(), query: new URLSearchParams(), path: '/account', rawQuery: '' };
  const { body } = await show(request as unknown as DoorRequest);
  const session = await sessions.find(request as unknown as DoorRequest);
  assert.ok(session !== null);
  const nonce = signedIn.nonce(session, ['form']);
  assert.ok(String(body).includes(`<p>first ${nonce} /auth</p><p>second ${nonce} /auth</p>`));
});
