/** Self sign-up: off by default, verified by a mailed link, and silent about which addresses have an account. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from 'fast-check';
import { readConfig } from '#config/config.ts';
import { createUser } from '#identity/accounts/users.ts';
import { amountOf } from '../setup/amount.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { createBrowser, ISSUER, PASSWORD, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';
import { anyText } from '../setup/any-text.ts';

const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const MAIL = { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' };
const server = await startAuthorizationServer({ ...MAIL, SIGN_UP: 'on' });
const { sql } = server;
const second = await server.startSecond();
const HOUR = 3_600_000;

const newBrowser = (origin = server.origin) => createBrowser(origin);
let people = 0;
const newEmail = (): string => `person${(people += 1)}@example.com`;

const ask = (email: string, browser = newBrowser()) => browser.post('/sign-up', { email });
/** Asks for a link and returns its path. */
async function link(email: string): Promise<string> {
  assert.equal((await ask(email)).status, 200);
  const { to, text } = await mails.next();
  assert.deepEqual(to, [email]);
  return new RegExp(`^${ISSUER}(/sign-up/confirm\\?token=hal_su_\\S{43})$`, 'm').exec(text)?.[1] ?? '';
}
const tokenOf = (path: string): string => path.split('token=')[1] ?? '';
const choose = (path: string, password = PASSWORD, browser: Browser = newBrowser()) =>
  browser.post('/sign-up/confirm', { token: tokenOf(path), password });
const usersWith = async (email: string) =>
  sql<{ id: number; isVerified: boolean }[]>`
    select id, is_email_verified as "isVerified" from users where lower(email) = lower(${email})`;

test('a person signs up: address, link, password, and is signed in', async () => {
  const email = newEmail();
  const path = await link(email);
  assert.equal((await usersWith(email)).length, 0, 'the link alone creates no account');
  const browser = newBrowser();
  assert.match((await browser.open(path)).text, new RegExp(email));
  const { status, location } = await choose(path, PASSWORD, browser);
  assert.deepEqual([status, location], [303, '/home']);
  assert.match((await browser.open('/account')).text, new RegExp(email));
  const [user] = await usersWith(email);
  assert.equal(user?.isVerified, true);
  const entries = await sql`select action from audit where user_id = ${user?.id ?? 0}`;
  assert.deepEqual(
    Array.from(entries, (entry) => entry['action']),
    ['user_created'],
  );
  assert.equal((await newBrowser().signIn(email)).status, 303);
});

test('sign-in links to sign-up', async () => {
  assert.match((await newBrowser().open('/sign-in')).text, /href="\/sign-up"/);
});

test('an address with an account gets the same page, and a mail that says so', async () => {
  const [email, free] = [newEmail(), newEmail()];
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const taken = await ask(email.toUpperCase());
  const mail = await mails.next();
  assert.deepEqual([mail.to, mail.subject], [[email], 'You already have an account']);
  assert.doesNotMatch(mail.text, /hal_su_/);
  const page = await ask(free);
  await mails.next();
  assert.equal(taken.text.replaceAll(email, free), page.text);
});

test('two spellings of an address make one account', async () => {
  const email = newEmail();
  await choose(await link(email));
  await ask(email.replace('.com', '。ＣＯＭ'));
  assert.deepEqual((await mails.next()).subject, 'You already have an account');
  assert.equal((await newBrowser().signIn(email.replace('example', 'exam\u00ADple'))).status, 303);
});

test('a disabled account gets no mail, and the same page', async () => {
  const [email, free] = [newEmail(), newEmail()];
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  await sql`update users set date_disabled = ${server.now()} where email = ${email}`;
  assert.equal((await ask(email)).status, 200);
  await ask(free);
  assert.deepEqual((await mails.next()).to, [free]);
});

test('a link works for an hour, once, and opening it does not use it up', async () => {
  const email = newEmail();
  const path = await link(email);
  for (let i = 0; i < 2; i += 1) assert.equal((await newBrowser().head(path)).status, 200);
  assert.equal((await choose(path, 'short')).status, 422);
  server.wait(HOUR - 1_000);
  assert.equal((await newBrowser().open(path)).status, 200);
  server.wait(2_000);
  assert.equal((await choose(path)).status, 410);
  const next = await link(email);
  assert.equal((await choose(next)).status, 303);
  assert.equal((await choose(next)).status, 410);
});

test('further requests do not end the link that the person is about to use; all end with the account', async () => {
  const email = newEmail();
  const paths = [await link(email), await link(email), await link(email)];
  const [first = '', other = ''] = paths;
  assert.equal((await choose(first)).status, 303);
  assert.equal((await choose(other)).status, 410);
});

test('a common or short password is refused with its reason', async () => {
  const path = await link(newEmail());
  for (const password of ['Password123!', 'elevenchars']) {
    const page = await choose(path, password);
    assert.equal(page.status, 422);
    assert.match(page.text, /id="password"[^>]*aria-invalid="true"/);
  }
});

test('of fifty concurrent uses of a link, in two processes, one succeeds', async () => {
  const email = newEmail();
  const path = await link(email);
  const uses = Array.from({ length: 50 }, (_, at) =>
    choose(path, PASSWORD, newBrowser(at % 2 === 0 ? server.origin : second)),
  );
  const statuses = (await Promise.all(uses)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 303).length, 1, statuses.join(' '));
  assert.ok(
    statuses.every((status) => [303, 410, 503].includes(status)),
    statuses.join(' '),
  );
  assert.equal((await usersWith(email)).length, 1);
});

test('an account that was created since the link was mailed is not replaced', async () => {
  const email = newEmail();
  const path = await link(email);
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  assert.equal((await choose(path, 'a battery, stapled')).status, 409);
  assert.equal((await newBrowser().signIn(email)).status, 303);
});

test('a new account ends the session of another user in this browser', async () => {
  const path = await link(newEmail());
  const browser = newBrowser();
  await browser.signIn(server.bob);
  const old = browser.jar.get('halcyon') ?? '';
  await choose(path, PASSWORD, browser);
  browser.jar.set('halcyon', old);
  assert.equal((await browser.open('/account')).status, 303);
});

test('sign-ups by strangers do not use up the mails to a new password', async () => {
  const email = newEmail();
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  for (let i = 0; i < 4; i += 1) await ask(email);
  assert.equal((await ask(email)).status, 429);
  assert.equal((await newBrowser().post('/forgot-password', { email })).status, 200);
  for (let i = 0; i < 4; i += 1) await mails.next();
  server.wait(24 * HOUR);
});

test('mails to one address are limited', async () => {
  const email = newEmail();
  const statuses: number[] = [];
  for (let i = 0; i < 4; i += 1) statuses.push((await ask(email)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  for (let i = 0; i < 3; i += 1) await mails.next();
  server.wait(24 * HOUR);
});

test('no address is accepted that is none, and a post from another site is refused', async () => {
  for (const email of ['', 'x', 'a b@example.com', `${'a'.repeat(250)}@b.cd`])
    assert.equal((await ask(email)).status, 422, email);
  const { status } = await newBrowser().post('/sign-up', { email: newEmail() }, { 'Sec-Fetch-Site': 'cross-site' });
  assert.equal(status, 403);
});

test('for any token and fields, the pages answer without an internal error and create no account', async () => {
  const count = async () => (await sql`select id from users`).length;
  const before = await count();
  const text = fc.oneof(
    anyText({ maxLength: 60 }).map((value) => value.toWellFormed()),
    fc.constantFrom(`hal_su_${'A'.repeat(43)}`, 'hal_su_', '\0'),
  );
  const fields = fc.dictionary(fc.constantFrom('token', 'password', 'x'), text);
  const browser = newBrowser();
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('/sign-up', '/sign-up/confirm'), fields, async (path, given) => {
      const query = new URLSearchParams(given).toString();
      for (const page of [await browser.open(`${path}?${query}`), await browser.post(path, given)])
        assert.ok([200, 410, 422, 400].includes(page.status), `${path}?${query} ${page.status}`);
    }),
    { numRuns: amountOf('any-form', { all: 150, part: 40 }) },
  );
  assert.equal(await count(), before);
});

test('by default there is no sign-up: the pages are a 404, and sign-in has no link to it', async () => {
  const closed = await startAuthorizationServer(MAIL);
  const browser = createBrowser(closed.origin);
  for (const path of ['/sign-up', '/sign-up/confirm?token=x']) assert.equal((await browser.open(path)).status, 404);
  assert.equal((await browser.post('/sign-up', { email: newEmail() })).status, 404);
  assert.equal((await browser.post('/sign-up/confirm', { token: `hal_su_${'A'.repeat(43)}` })).status, 404);
  assert.doesNotMatch((await browser.open('/sign-in')).text, /sign-up/);
});

test('sign-up needs mail', () => {
  assert.throws(() => readConfig({ SIGN_UP: 'on' }, '/'), /SMTP_URL/);
  assert.throws(() => readConfig({ SIGN_UP: '1' }, '/'), /SIGN_UP/);
});
