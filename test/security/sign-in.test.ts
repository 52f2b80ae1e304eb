/** Signing in and out over HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#accounts/users.ts';
import { createPasswords } from '#accounts/passwords.ts';
import { createSessions } from '#accounts/sessions.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { ada, sql } = server;
const newBrowser = () => createBrowser(server.origin);

test('an unknown address and a wrong password get the same page, with the address kept', async () => {
  const browser = newBrowser();
  const wrong = await browser.signIn(ada, 'wrong password');
  const unknown = await browser.signIn('ida@example.com', 'wrong password');
  assert.equal(wrong.status, 422);
  assert.equal(unknown.status, 422);
  assert.match(wrong.text, /role="alert"/);
  assert.match(wrong.text, /value="ada@example.com"/);
  assert.equal(unknown.text, wrong.text.replace('ada@', 'ida@'));
  assert.equal(browser.cookie(), undefined);
});

test('the session gets a new id at each sign-in, and the old one ends', async () => {
  const browser = newBrowser();
  const first = await browser.signIn(ada);
  assert.equal(first.status, 303);
  const [cookie = ''] = first.headers.getSetCookie();
  assert.match(cookie, /^halcyon=[A-Za-z0-9_-]{43}; /);
  for (const part of ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Max-Age=2592000']) assert.ok(cookie.includes(part), part);
  const old = browser.cookie() ?? '';
  await browser.signIn(ada);
  assert.notEqual(browser.cookie(), old);
  const page = await fetch(`${server.origin}/sign-in`, { headers: { Cookie: old } });
  assert.match(await page.text(), /<h1>Sign in<\/h1>/);
});

test('on https the cookie is bound to the host', async () => {
  const sessions = createSessions({ sql, authUrl: 'https://auth.example.com', lifetimeDays: 30 });
  const cookie = await sessions.start(server.adaId, new Date());
  assert.match(cookie, /^__Host-halcyon=[A-Za-z0-9_-]{43}; /);
  assert.ok(cookie.includes('Secure') && cookie.includes('Path=/') && !cookie.includes('Domain'));
});

test('the page says who is signed in, and sign-out ends the session everywhere', async () => {
  const browser = newBrowser();
  await browser.signIn(ada);
  const stolen = browser.cookie() ?? '';
  assert.match((await browser.open('/sign-in')).text, /ada@example\.com/);
  assert.equal((await browser.post('/sign-out', {})).location, '/sign-in');
  const page = await fetch(`${server.origin}/sign-in`, { headers: { Cookie: stolen } });
  assert.doesNotMatch(await page.text(), /ada@example\.com/);
});

test('a session ends after its thirty days', async () => {
  const browser = newBrowser();
  await browser.signIn(ada);
  server.wait(30 * 86_400_000 + 1_000);
  assert.doesNotMatch((await browser.open('/sign-in')).text, /ada@example\.com/);
  server.wait(-30 * 86_400_000 - 1_000);
});

test('return_to leads to paths of this site only', async () => {
  const browser = newBrowser();
  const signIn = { email: ada, password: PASSWORD };
  for (const hostile of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    '/\t/x',
  ]) {
    const page = await browser.open(`/sign-in?return_to=${encodeURIComponent(hostile)}`);
    assert.doesNotMatch(page.text, /return_to/);
    assert.equal((await browser.post('/sign-in', { ...signIn, return_to: hostile })).location, '/sign-in', hostile);
  }
  const { status, location } = await browser.post('/sign-in', { ...signIn, return_to: '/authorize?x=1' });
  assert.deepEqual([status, location], [303, '/authorize?x=1']);
});

test('a post from another site signs nobody in or out', async () => {
  const browser = newBrowser();
  const headers = { 'Sec-Fetch-Site': 'cross-site' };
  assert.equal((await browser.post('/sign-in', { email: ada, password: PASSWORD }, headers)).status, 403);
  assert.equal(browser.cookie(), undefined);
  assert.equal((await browser.post('/sign-out', {}, headers)).status, 403);
});

test('a user needs an address, a password of ten characters, and an address of their own', async () => {
  const passwords = createPasswords({ hashesAtOnce: 1 });
  const user = { email: 'new@example.com', password: '🐎'.repeat(10), now: new Date() };
  const status = (changes: Partial<typeof user>) =>
    createUser(sql, passwords, { ...user, ...changes }).then(
      () => 201,
      (error: { status?: number }) => error.status,
    );
  for (const email of [
    '',
    'new',
    'new@',
    '@example.com',
    'a b@example.com',
    'new@example.com\0',
    `${'a'.repeat(250)}@b.cd`,
  ])
    assert.equal(await status({ email }), 400, email);
  assert.equal(await status({ password: '🐎'.repeat(9) }), 400);
  assert.equal(await status({ password: 'a'.repeat(1_001) }), 400);
  assert.equal(await status({}), 201);
  assert.equal(await status({ email: 'NEW@example.com' }), 409);
});
