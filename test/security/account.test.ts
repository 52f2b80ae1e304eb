/** The account page: its content, its readers, and that no input from outside appears in it as markup. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '#identity/accounts/account-page.ts';
import { describeAction, recordAuditEntry } from '#identity/accounts/audit.ts';
import { createSessions } from '#identity/accounts/sessions.ts';
import { createSignedIn } from '#identity/accounts/signed-in.ts';
import { createUser } from '#identity/accounts/users.ts';
import type { RawRequest } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { readConfig } from '../../src/config/config.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer();
const { sql, ada, bob } = server;
const newBrowser = () => createBrowser(server.origin);

const rowsOf = (text: string): string[] =>
  [...text.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );

test('the account page needs a session, and a sign-in returns to it', async () => {
  const { status, location } = await newBrowser().open('/account?x=1');
  assert.deepEqual([status, location], [303, '/sign-in?return_to=%2Faccount%3Fx%3D1']);
});

test('the latest activity is shown in words, with its place and device', async () => {
  const browser = newBrowser();
  const agent = { 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' };
  await browser.post('/sign-in', { email: bob, password: 'wrong password' }, agent);
  await browser.post('/sign-in', { email: bob, password: PASSWORD }, agent);
  const { text } = await browser.open('/account');
  const [, signedIn, made] = rowsOf(text);
  assert.match(signedIn ?? '', /^Signed in .* 10:00 UTC 127\.0\.0\.1 Firefox on Linux$/);
  assert.match(made ?? '', /^Account created .* 10:00 UTC the operator$/);
});

/** Creates a signed-in user without other activity. */
async function newPerson(email: string) {
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser();
  await browser.signIn(email);
  return { id, browser };
}
const origin = { address: '198.51.100.7', userAgent: null };

test("twenty rows are shown, the latest first, no other user's, and older ones on further pages", async () => {
  const { id, browser } = await newPerson('busy@example.com');
  const entry = { action: 'signed_out', userId: id, origin, now: server.now() } as const;
  for (let i = 0; i < 25; i += 1) await recordAuditEntry(sql, entry);
  const { text } = await browser.open('/account');
  assert.equal(rowsOf(text).length, 21, 'with the heading');
  assert.ok(!text.includes(ada));
  const [, older = ''] = /href="(\/account\?before=[0-9]+#activity)"/.exec(text) ?? [];
  const further = (await browser.open(older)).text;
  const [, ...rows] = rowsOf(further).map((row) => row.replace(/ 1 July.*/, ''));
  assert.deepEqual(rows, [...Array.from({ length: 5 }, () => 'Signed out'), 'Signed in', 'Account created']);
  assert.doesNotMatch(further, /before=/);
  assert.match(further, /href="\/account#activity"/);
});

test('any number of wrong passwords and requested links pushes no sign-in out of the list; they are counted', async () => {
  const { id, browser } = await newPerson('guessed@example.com');
  for (let i = 0; i < 20; i += 1) {
    await recordAuditEntry(sql, { action: 'sign_in_failed', userId: id, origin, now: server.now() });
    await recordAuditEntry(sql, { action: 'password_reset_requested', userId: id, origin, now: server.now() });
  }
  const { text } = await browser.open('/account');
  const [, signedIn, made, ...others] = rowsOf(text);
  assert.match(signedIn ?? '', /^Signed in .* 127\.0\.0\.1 node$/);
  assert.match(made ?? '', /^Account created .* the operator$/);
  assert.deepEqual(others, []);
  const said = text.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ');
  for (const action of ['sign_in_failed', 'password_reset_requested'])
    assert.match(
      said,
      new RegExp(`${describeAction(action)} 20 times [^.]* 30 days[^.]* 10:00 UTC from 198\\.51\\.100\\.7`),
    );
});

test('attempts of more than thirty days ago are not counted', async () => {
  const { id, browser } = await newPerson('once@example.com');
  const ago = (ms: number) => new Date(server.now().getTime() - 30 * 86_400_000 + ms);
  await recordAuditEntry(sql, { action: 'sign_in_failed', userId: id, origin, now: ago(0) });
  assert.doesNotMatch((await browser.open('/account')).text, /Wrong password/);
  await recordAuditEntry(sql, { action: 'sign_in_failed', userId: id, origin, now: ago(1) });
  assert.match((await browser.open('/account')).text, /Wrong password entered once/);
});

test('a link that the operator created is a row of its own', async () => {
  const { id, browser } = await newPerson('helped@example.com');
  await recordAuditEntry(sql, { action: 'password_reset_requested', userId: id, origin: null, now: server.now() });
  const [, row] = rowsOf((await browser.open('/account')).text);
  assert.match(row ?? '', /^Password reset link .* 10:00 UTC the operator$/);
});

test('a row names its app', async () => {
  const { id, browser } = await newPerson('apps@example.com');
  const [client] = await sql<{ id: number }[]>`select id from client where name = 'Mailer'`;
  const entry = { userId: id, origin, now: server.now() } as const;
  await recordAuditEntry(sql, { ...entry, action: 'grant_given', client: 1, detail: { client: 'As it was called' } });
  await recordAuditEntry(sql, { ...entry, action: 'client_deleted', client: 2, detail: { name: 'Gone' } });
  await recordAuditEntry(sql, { ...entry, action: 'grant_revoked', client: client?.id ?? null });
  const [, ...rows] = rowsOf((await browser.open('/account')).text).map((row) => row.replace(/ 1 July.*/, ''));
  assert.deepEqual(rows.slice(0, 3), [
    'App disconnected: Mailer',
    'Your app deleted: Gone',
    'App connected: As it was called',
  ]);
});

test('a page of older activity with an invalid position is the first', async () => {
  const { browser } = await newPerson('typing@example.com');
  for (const before of ['x', '-1', '', '9'.repeat(40), '%00'])
    assert.equal(rowsOf((await browser.open(`/account?before=${before}`)).text).length, 3, before);
});

test('the names of users and the User-Agent are shown as text', async () => {
  const email = '><script>alert(1)</script>@example.com';
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser();
  const agent = { 'User-Agent': '<img src=x onerror=alert(2)>' };
  const wrong = await browser.post('/sign-in', { email, password: 'wrong password' }, agent);
  const breaking = await browser.post('/sign-in', { email: `"${email}`, password: 'wrong password' });
  assert.ok(breaking.text.includes('value="&quot;&gt;&lt;script&gt;'));
  assert.equal((await browser.post('/sign-in', { email, password: PASSWORD }, agent)).status, 303);
  const sent = await browser.post('/forgot-password', { email });
  for (const page of [wrong, breaking, await browser.open('/account'), await browser.open('/account/password'), sent])
    assert.doesNotMatch(page.text, /<script>|<img/);
  const { text } = await browser.open('/account');
  assert.ok(text.includes('&gt;&lt;script&gt;alert(1)&lt;/script&gt;@example.com'));
  assert.ok(text.includes('&lt;img src=x onerror=alert(2)&gt;'));
});

const HOME = '<a href="/account">Your account</a>';

test('a page that could not be shown has a link to the home page, for every visitor', async () => {
  const { browser } = await newPerson('lost@example.com');
  const elsewhere = { 'Sec-Fetch-Site': 'cross-site' };
  const pages = [
    [404, await browser.open(`/account/clients/${'0'.repeat(24)}`)],
    [403, await browser.post('/account/password', {}, elsewhere)],
    [403, await newBrowser().post('/sign-in', {}, elsewhere)],
  ] as const;
  for (const [status, page] of pages) {
    assert.equal(page.status, status);
    assert.ok(page.text.includes(HOME), page.text);
  }
});

test('a page that asks the visitor to wait or to check the input has a link to continue', async () => {
  const { browser } = await newPerson('waits@example.com');
  const stale = await browser.post('/account/password', { nonce: 'x' });
  assert.equal(stale.status, 403);
  assert.match(stale.text, /<nav .*href="\/account"/s);
  const guesser = newBrowser();
  for (let i = 0; i < 10; i += 1) await guesser.signIn('waits@example.com', 'wrong password');
  const refused = await guesser.signIn('waits@example.com', 'wrong password');
  assert.equal(refused.status, 429);
  assert.ok(refused.text.includes(HOME), refused.text);
});

test('the pages with passkeys run no script but those of our own origin', async () => {
  const browser = newBrowser();
  await browser.signIn(bob);
  for (const path of ['/sign-in?return_to=/x', '/account/security']) {
    const { headers, text } = await browser.open(path);
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /^default-src 'none'; script-src 'self'; connect-src 'self'; .*frame-ancestors 'none'/, path);
    for (const [, attributes = ''] of text.matchAll(/<script([^>]*)>/g))
      assert.match(attributes, /^ type="module" blocking="render" src="\/assets\/[0-9a-f]{16}\.js"$/, path);
  }
});

test('sections of other handlers are shown in the given order, with nonces of this session', async () => {
  const config = readConfig({ BASE_URL: server.origin, AUTH_URL: `${server.origin}/auth` }, '/');
  const sessions = createSessions({ sql, config });
  const stepUp = { restored: ({ form }: { form: URLSearchParams }) => form, confirm: async () => undefined };
  const signedIn = createSignedIn({ sessions, authUrl: server.origin, nonceKeys: [Buffer.alloc(32, 3)], stepUp });
  const part = (name: string) => async (visit: { nonce: (bound: readonly string[]) => string; root: string }) =>
    html`<p>${name} ${visit.nonce(['form'])} ${visit.root}</p>`;
  const show = createAccount({ sql, config }, signedIn, [part('first'), part('second')]);
  const browser = newBrowser();
  await browser.signIn(bob);
  const cookies = Object.fromEntries(browser.jar);
  const request = { cookies, now: server.now(), query: new URLSearchParams(), path: '/account', rawQuery: '' };
  const { body } = await show(request as unknown as RawRequest);
  const session = await sessions.find(request);
  assert.ok(session !== null);
  const nonce = signedIn.nonce(session, ['form']);
  assert.ok(typeof body === 'string');
  assert.ok(body.includes(`<p>first ${nonce} /auth</p><p>second ${nonce} /auth</p>`));
});
