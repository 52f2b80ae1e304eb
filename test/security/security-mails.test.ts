/** Mails about a new device, a changed password and a connected app: when they are sent, to whom, and what they contain. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Secret, TOTP } from 'otpauth';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { createBrowser, ISSUER, PASSWORD, readForm, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { credentialsIn, hiddenIn, newApp, submit } from './page-forms.ts';
import { passwords } from '../setup/passwords.ts';

const mails = await startMailServer();
after(() => mails.stop());
const env = { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com', TRUSTED_PROXIES: '127.0.0.1' };
const server = await startAuthorizationServer(env);
// Ada's browser signs in when the server starts.
await mails.next();
const { sql } = server;
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
const NEWER_FIREFOX = FIREFOX.replaceAll('140', '141');
const CHROME = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36';
const HOME = '203.0.113.7';
const NEW = 'a battery, stapled';

type From = { agent?: string; address?: string };
const headersOf = ({ agent = FIREFOX, address = HOME }: From) => ({ 'User-Agent': agent, 'X-Forwarded-For': address });
const signInFrom = (browser: Browser, email: string, from: From = {}, password = PASSWORD) =>
  browser.post('/sign-in', { email, password }, headersOf(from));

let people = 0;
async function newPerson() {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  return { id, email };
}

/** Creates a person who has signed in from home, and has got the mail about it. */
async function newcomer() {
  const person = await newPerson();
  const browser = createBrowser(server.origin);
  await signInFrom(browser, person.email);
  await mails.next();
  return { ...person, browser };
}

/** Returns the subjects of the mails until that of a sign-in on another device. */
async function subjectsUntilProbe(): Promise<string[]> {
  const probe = await newPerson();
  await signInFrom(createBrowser(server.origin), probe.email);
  const subjects: string[] = [];
  for (;;) {
    const { to, subject } = await mails.next();
    if (to[0] === probe.email) return subjects;
    subjects.push(subject);
  }
}

/** Returns the subjects of all mails so far, of which there are at least `count`: two mails are sent at once, and one may be late. */
async function subjectsUntilNow(count: number): Promise<string[]> {
  const subjects = [...(await subjectsUntilProbe()), ...(await subjectsUntilProbe())];
  while (subjects.length < count) subjects.push((await mails.next()).subject);
  return subjects.toSorted();
}

test('a sign-in on a new device is mailed to the person, with browser, network address and time', async () => {
  const { email } = await newPerson();
  await signInFrom(createBrowser(server.origin), email);
  const { to, subject, text } = await mails.next();
  assert.deepEqual([to, subject], [[email], 'New sign-in to your account']);
  for (const part of ['Firefox on Linux', HOME, '2026-07-01 10:00 UTC', `${ISSUER}/account/password`])
    assert.ok(text.includes(part), text);
});

test('another network, or another browser, is a new device', async () => {
  const { email } = await newcomer();
  for (const from of [{ address: '198.51.100.9' }, { agent: CHROME }])
    await signInFrom(createBrowser(server.origin), email, from);
  assert.deepEqual(await subjectsUntilNow(2), ['New sign-in to your account', 'New sign-in to your account']);
});

test('the same browser is known: by its cookie everywhere, and without it in its network and after an update', async () => {
  const { email, browser } = await newcomer();
  await signInFrom(browser, email, { address: '198.51.100.9', agent: CHROME });
  await signInFrom(createBrowser(server.origin), email);
  await signInFrom(createBrowser(server.origin), email, { agent: NEWER_FIREFOX });
  assert.deepEqual(await subjectsUntilNow(0), []);
});

test('a browser that was signed out by a change of the password is still known', async () => {
  const { email, browser } = await newcomer();
  const elsewhere = createBrowser(server.origin);
  await signInFrom(elsewhere, email, { address: '198.51.100.9' });
  const { nonce } = readForm(await browser.open('/account/password'));
  await browser.post('/account/password', { nonce, current: PASSWORD, password: NEW });
  await signInFrom(elsewhere, email, { address: '198.51.100.9' }, NEW);
  assert.deepEqual(await subjectsUntilNow(2), ['New sign-in to your account', 'Your password was changed']);
});

test('a wrong password, and the device of another person, make no device known', async () => {
  const [one, two] = [await newcomer(), await newPerson()];
  await signInFrom(one.browser, two.email, {}, 'wrong password');
  assert.deepEqual(await subjectsUntilNow(0), []);
  await signInFrom(one.browser, two.email);
  assert.deepEqual((await mails.next()).to, [two.email]);
});

test('an unknown user agent puts no text into the mail', async () => {
  const { email } = await newPerson();
  await signInFrom(createBrowser(server.origin), email, { agent: 'Call +1 555 0100 at once' });
  const { text } = await mails.next();
  assert.match(text, /^Browser: unknown$/m);
  assert.doesNotMatch(text, /555/);
});

test('many sign-ins by new devices send ten mails, and suppress none about the password', async () => {
  const { email, browser } = await newcomer();
  for (let i = 0; i < 14; i += 1) await signInFrom(createBrowser(server.origin), email, { address: `198.51.100.${i}` });
  assert.equal((await subjectsUntilNow(9)).length, 9, 'one was sent before');
  await signInFrom(browser, email);
  const { nonce } = readForm(await browser.open('/account/password'));
  await browser.post('/account/password', { nonce, current: PASSWORD, password: NEW });
  assert.equal((await mails.next()).subject, 'Your password was changed');
});

test('a password that was reset with a link is mailed too', async () => {
  const { email } = await newPerson();
  await createBrowser(server.origin).post('/forgot-password', { email });
  const token = /token=(\S+)/.exec((await mails.next()).text)?.[1] ?? '';
  await createBrowser(server.origin).post('/reset-password', { token, password: NEW });
  const { to, subject } = await mails.next();
  assert.deepEqual([to, subject], [[email], 'Your password was changed']);
});

test('a rejected new password sends no mail', async () => {
  const { browser } = await newcomer();
  const { nonce } = readForm(await browser.open('/account/password'));
  const page = await browser.post('/account/password', { nonce, current: 'wrong password', password: NEW });
  assert.equal(page.status, 422);
  assert.deepEqual(await subjectsUntilNow(0), []);
});

test('a newly connected app is mailed with its name and store, and a second approval is not', async () => {
  const { id, email, browser } = await newcomer();
  await addMember(sql, { storeId: server.alpha, userId: id, role: 'owner', now: server.now() });
  await browser.consent(server.asking());
  const { to, subject, text } = await mails.next();
  assert.deepEqual([to, subject], [[email], 'An app was connected to your account']);
  assert.match(text, /the app "Mailer" was given access to the store "Alpha"/);
  await browser.consent(server.asking());
  assert.deepEqual(await subjectsUntilNow(0), []);
  await browser.consent(server.asking({ scope: 'user_full_access' }));
  assert.match((await mails.next()).text, /your account and all your stores/);
});

test('a new client secret is mailed to its developer, with the end of the previous one and without the secret', async () => {
  const { email, browser } = await newcomer();
  const { clientId, path } = await newApp(browser);
  const { secret } = credentialsIn(await submit(browser, path, `${path}/secret`));
  const { to, subject, text } = await mails.next();
  assert.deepEqual([to, subject], [[email], 'Your app "My app" has a new client secret']);
  assert.match(text, /The previous secret is valid until 2026-07-02 10:00 UTC/);
  assert.ok(text.includes(`${ISSUER}/account/clients/${clientId}`) && !text.includes(secret), text);
  await submit(browser, path, `${path}/secret`, { at_once: '1' });
  assert.match((await mails.next()).text, /All older secrets have expired/);
});

test('an app that was disconnected and is connected again is new', async () => {
  const { id, browser } = await newcomer();
  await addMember(sql, { storeId: server.alpha, userId: id, role: 'owner', now: server.now() });
  await browser.consent(server.asking());
  const page = await browser.open('/account');
  const [revoke = ''] = /\/account\/connected\/\d+\/revoke/.exec(page.text) ?? [];
  await browser.post(revoke, hiddenIn(page, revoke));
  await browser.consent(server.asking());
  assert.equal((await subjectsUntilNow(2)).length, 2);
});

test('a denied app sends no mail', async () => {
  const { id, browser } = await newcomer();
  await addMember(sql, { storeId: server.alpha, userId: id, role: 'owner', now: server.now() });
  await browser.consent(server.asking(), { decision: 'deny' });
  assert.deepEqual(await subjectsUntilNow(0), []);
});

test('without a mail server, people sign in and connect apps as before', async () => {
  const silent = await startAuthorizationServer();
  assert.match((await silent.browser.consent(silent.asking())).location ?? '', /code=/);
});

test('a change of second factors and a used recovery code are mailed', async () => {
  const { email, browser } = await newcomer();
  const page = await browser.open('/account/security/app');
  const { nonce = '', secret = '' } = hiddenIn(page, '/account/security/app');
  const codeAt = (at: Date): string =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: at.getTime() });
  const saved = await browser.post('/account/security/app', { nonce, secret, code: codeAt(server.now()) });
  const set = await mails.next();
  assert.deepEqual(set.to, [email]);
  assert.match(set.text, /an authenticator app was set up\./);
  const [, recovery = ''] = /<code>([0-9a-z-]{27})<\/code>/.exec(saved.text) ?? [];
  const step = hiddenIn(await signInFrom(browser, email), '/sign-in/second-factor');
  await browser.post('/sign-in/second-factor', { ...step, verification_code: recovery }, headersOf({}));
  const used = await mails.next();
  assert.match(used.text, /a recovery code was used; 9 are left\./);
  for (const { text } of [set, used]) assert.ok(!text.includes(secret) && !text.includes(recovery));
});
