/** Signing in and out over HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertUser } from '#identity/accounts/accounts-sql.ts';
import { createUser, passwordFault } from '#identity/accounts/users.ts';
import { createSessions } from '#identity/accounts/sessions.ts';
import { readConfig } from '../../src/config/config.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Page } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer();
const { ada, sql } = server;
const newBrowser = () => createBrowser(server.origin);

/** The page without the challenge for passkeys, which is random. */
const withoutChallenge = ({ text }: Page): string => text.replace(/&quot;challenge&quot;:&quot;[\w-]+&quot;/, '');

test('an unknown address and a wrong password get the same page, with the address kept', async () => {
  const browser = newBrowser();
  const wrong = await browser.signIn(ada, 'wrong password');
  const unknown = await browser.signIn('ida@example.com', 'wrong password');
  assert.equal(wrong.status, 422);
  assert.equal(unknown.status, 422);
  assert.match(wrong.text, /role="alert"/);
  assert.match(wrong.text, /value="ada@example.com"/);
  assert.equal(withoutChallenge(unknown), withoutChallenge(wrong).replace('ada@', 'ida@'));
  assert.equal(browser.cookie(), undefined);
});

test('an address that browsers reject as an e-mail address can be typed, and signs in', async () => {
  const email = 'jörg@bücher.example';
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser();
  // A browser checks and rewrites the value of a field of the type email.
  assert.match((await browser.open('/sign-in')).text, /<input\s+type="text"\s+id="email"/);
  assert.equal((await browser.signIn(email)).status, 303);
  assert.match((await browser.open('/account')).text, /jörg@bücher\.example/);
});

test('the session gets a new id at each sign-in, and the old one ends', async () => {
  const browser = newBrowser();
  const first = await browser.signIn(ada);
  assert.equal(first.status, 303);
  const [cookie = ''] = first.headers.getSetCookie();
  assert.match(cookie, /^halcyon=[A-Za-z0-9_-]{43}; /);
  for (const part of ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Max-Age=2592000']) assert.ok(cookie.includes(part), part);
  const old = browser.jar.get('halcyon') ?? '';
  await browser.signIn(ada);
  assert.notEqual(browser.jar.get('halcyon'), old);
  browser.jar.set('halcyon', old);
  assert.equal((await browser.open('/account')).status, 303);
});

test('on https the cookie is bound to the host', async () => {
  const sessions = createSessions({ sql, config: readConfig({ BASE_URL: 'https://auth.example.com' }, '/') });
  const cookie = await sessions.start(sql, server.adaId, { address: '', headers: {}, now: new Date() });
  assert.match(cookie, /^__Host-halcyon=[A-Za-z0-9_-]{43}; /);
  assert.ok(cookie.includes('Secure') && cookie.includes('Path=/') && !cookie.includes('Domain'));
});

test('sign-out ends the session everywhere, and the browser deletes its cookie', async () => {
  const browser = newBrowser();
  await browser.signIn(ada);
  const session = browser.jar.get('halcyon') ?? '';
  assert.match((await browser.open('/account')).text, /ada@example\.com/);
  assert.equal((await browser.post('/sign-out', {})).location, '/sign-in');
  assert.equal(browser.jar.has('halcyon'), false);
  browser.jar.set('halcyon', session);
  assert.equal((await browser.open('/account')).status, 303);
});

test('without return_to, sign-in leads to the start page', async () => {
  const browser = newBrowser();
  assert.equal((await browser.signIn(ada)).location, '/home');
  const { status, location } = await browser.open('/sign-in');
  assert.deepEqual([status, location], [303, '/home']);
  assert.equal((await browser.open('/sign-in?return_to=/authorize')).status, 200, 'to sign in as another user');
});

test('a session ends after its thirty days', async () => {
  const browser = newBrowser();
  await browser.signIn(ada);
  server.wait(30 * 86_400_000 + 1_000);
  assert.equal((await browser.open('/account')).status, 303);
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
    assert.equal((await browser.post('/sign-in', { ...signIn, return_to: hostile })).location, '/home', hostile);
  }
  const { status, location } = await browser.post('/sign-in', { ...signIn, return_to: '/authorize?x=1' });
  assert.deepEqual([status, location], [303, '/authorize?x=1']);
});

test('a form that requires a session, sent without one, leads to the sign-in and then to the account', async () => {
  const { status, location } = await newBrowser().post('/account/password', { current: PASSWORD, password: 'x' });
  assert.deepEqual([status, location], [303, '/sign-in?return_to=%2Faccount']);
});

test('the password of a disabled user is wrong, and their sessions end, in every process', async () => {
  const second = createBrowser(await server.startSecond());
  const browser = newBrowser();
  for (const each of [browser, second]) assert.equal((await each.signIn(server.bob)).status, 303);
  const wrong = await newBrowser().signIn(server.bob, 'wrong password');
  await sql`update users set date_disabled = now() where id = ${server.bobId}`;
  for (const each of [browser, second]) assert.equal((await each.open('/account')).status, 303);
  const refused = await newBrowser().signIn(server.bob);
  assert.deepEqual([refused.status, withoutChallenge(refused)], [422, withoutChallenge(wrong)]);
  await sql`update users set date_disabled = null where id = ${server.bobId}`;
  assert.equal((await browser.open('/account')).status, 200, 'the session works again once the user is enabled');
});

test('a password may be shorter beside a second factor', async () => {
  const chosen = { email: 'new@example.com', password: 'ungünst!' };
  assert.equal((await passwordFault({ ...chosen, hasSecondFactor: false }))?.code, 'too_short');
  assert.notEqual((await passwordFault({ ...chosen, hasSecondFactor: true }))?.code, 'too_short');
  const seven = { ...chosen, password: 'ungünst', hasSecondFactor: true };
  assert.equal((await passwordFault(seven))?.code, 'too_short');
});

test('a shorter password of before the rule stays valid', async () => {
  const email = 'former@example.com';
  const passwordHash = await passwords.hash('ten chars!');
  await insertUser(sql, { email, passwordHash, isEmailVerified: true, now: server.now() });
  assert.equal((await newBrowser().signIn(email, 'ten chars!')).status, 303);
});

test('a user needs an address, a password of twelve characters, and a unique address', async () => {
  const user = { email: 'new@example.com', password: '🐎'.repeat(12), now: new Date() };
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
  assert.equal(await status({ password: '🐎'.repeat(11) }), 400);
  assert.equal(await status({ password: 'a'.repeat(1_001) }), 400);
  assert.equal(await status({}), 201);
  assert.equal(await status({ email: 'NEW@example.com' }), 409);
});

test('the e-mail address is rejected as a password', async () => {
  const user = { email: 'Long.Enough@example.com', now: new Date() };
  for (const password of ['Long.Enough@example.com', ' long.enough@EXAMPLE.com '])
    await assert.rejects(createUser(sql, passwords, { ...user, password }), { status: 400 });
});
