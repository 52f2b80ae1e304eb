/** Second factors: authenticator app, recovery codes and passkeys, at sign-in and in the sign-in settings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, asyncProperty, json, nat, oneof, string, tuple } from 'fast-check';
import { TOTP, Secret } from 'otpauth';
import { createSealer } from '#db/seal.ts';
import { createLinks } from '#identity/accounts/password-change.ts';
import { createUser } from '#identity/accounts/users.ts';
import { readConfig } from '../../src/config/config.ts';
import { amountOf } from '../setup/amount.ts';
import { createAuthenticator } from '../setup/authenticator.ts';
import { createBrowser, ISSUER, PASSWORD, startAuthorizationServer, type Browser, type Page } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer();
const { sql, now, wait } = server;
const newBrowser = () => createBrowser(server.origin);

const PERIOD_MS = 30_000;

let people = 0;
async function newPerson() {
  people += 1;
  const email = `factor${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: now() });
  const browser = newBrowser();
  await browser.signIn(email);
  return { id, email, browser };
}

const unescape = (text: string): string => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&');
const fieldOf = ({ text }: Page, name: string): string =>
  unescape(new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? '');
const optionsOf = ({ text }: Page, attribute: string): string =>
  unescape(new RegExp(`${attribute}="([^"]*)"`).exec(text)?.[1] ?? '');
/** Returns the nonce of the form with this address. */
const nonceOf = ({ text }: Page, action: string): string =>
  new RegExp(`action="${action}"[^>]*>\\s*<input type="hidden" name="nonce" value="([^"]*)"`).exec(text)?.[1] ?? '';
const recoveryCodesOf = ({ text }: Page): string[] =>
  [...text.matchAll(/<code>([0-9a-z-]{27})<\/code>/g)].map(([, code = '']) => code);
const codeOf = (secret: string, at = now()): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: at.getTime() });

const SECURITY = '/account/security';

async function setUpApp(browser: Browser) {
  const page = await browser.open(`${SECURITY}/app`);
  const secret = fieldOf(page, 'secret');
  const saved = await browser.post(`${SECURITY}/app`, { nonce: fieldOf(page, 'nonce'), secret, code: codeOf(secret) });
  // The code that set the app up was accepted once; the next one belongs to the next step.
  wait(PERIOD_MS);
  return { secret, saved, codes: recoveryCodesOf(saved) };
}

async function addPasskey(browser: Browser, name = 'Laptop', authenticator = createAuthenticator(ISSUER)) {
  const page = await browser.open(SECURITY);
  const registration = authenticator.create(optionsOf(page, 'data-passkey-create'));
  const nonce = nonceOf(page, `${SECURITY}/passkeys`) || fieldOf(page, 'nonce');
  const saved = await browser.post(`${SECURITY}/passkeys`, { nonce, registration, name });
  return { authenticator, saved, codes: recoveryCodesOf(saved) };
}

/** Posts the second step of a page that asks for it. */
const answer = (browser: Browser, page: Page, fields: Record<string, string>): Promise<Page> =>
  browser.post('/sign-in/second-factor', { pending: fieldOf(page, 'pending'), ...fields });
const withCode = (browser: Browser, page: Page, code: string): Promise<Page> =>
  answer(browser, page, { verification_code: code });
const isSignedIn = async (browser: Browser): Promise<boolean> => (await browser.open('/account')).status === 200;

test('with an authenticator app the password alone does not sign in, and each code works once', async () => {
  const { email, browser } = await newPerson();
  const { secret, saved, codes } = await setUpApp(browser);
  assert.deepEqual([saved.status, codes.length], [200, 10]);
  const [first, second] = [newBrowser(), newBrowser()];
  const [page, other] = [await first.signIn(email), await second.signIn(email)];
  assert.deepEqual([page.status, await isSignedIn(first)], [200, false]);
  assert.equal((await withCode(first, page, '000000')).status, 422);
  const code = codeOf(secret);
  const right = await withCode(first, page, `${code.slice(0, 3)} ${code.slice(3)}`);
  assert.deepEqual([right.status, right.location, await isSignedIn(first)], [303, '/home', true]);
  const replayed = await withCode(second, other, code);
  assert.deepEqual([replayed.status, await isSignedIn(second)], [422, false]);
});

test('the code that set up the app is not accepted at sign-in', async () => {
  const { email, browser } = await newPerson();
  const before = now();
  const { secret } = await setUpApp(browser);
  const again = newBrowser();
  assert.equal((await withCode(again, await again.signIn(email), codeOf(secret, before))).status, 422);
});

for (const [steps, isAccepted] of [
  [-2, false],
  [-1, true],
  [1, true],
  [2, false],
] as const) {
  test(`a clock that is ${steps} steps off is ${isAccepted ? 'accepted' : 'refused'}`, async () => {
    const { email, browser } = await newPerson();
    const { secret } = await setUpApp(browser);
    wait(10 * PERIOD_MS);
    const phone = new Date(now().getTime() + steps * PERIOD_MS);
    const again = newBrowser();
    const { status } = await withCode(again, await again.signIn(email), codeOf(secret, phone));
    assert.equal(status, isAccepted ? 303 : 422);
  });
}

test('of two requests with the same code at once, one signs in', async () => {
  const { email, browser } = await newPerson();
  const { secret, codes } = await setUpApp(browser);
  for (const code of [codeOf(secret), codes[0] ?? '']) {
    const browsers = [newBrowser(), newBrowser()];
    const pages = await Promise.all(browsers.map((each) => each.signIn(email)));
    const sent = browsers.map((each, at) => withCode(each, pages[at] ?? assert.fail(), code));
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    assert.deepEqual(
      statuses.toSorted((a, b) => a - b),
      [303, 422],
    );
  }
});

test('a lost device is replaced by a recovery code, which works once, however it is typed', async () => {
  const { email, browser } = await newPerson();
  const { codes } = await setUpApp(browser);
  const [code = ''] = codes;
  const [first, second] = [newBrowser(), newBrowser()];
  const typed = ` ${code.toUpperCase().replaceAll('-', ' ').replaceAll('0', 'O').replaceAll('1', 'L')} `;
  assert.equal((await withCode(first, await first.signIn(email), typed)).status, 303);
  assert.match((await first.open(SECURITY)).text, /You have 9 left/);
  assert.equal((await withCode(second, await second.signIn(email), code)).status, 422);
});

test('new recovery codes replace the old ones', async () => {
  const { email, browser } = await newPerson();
  const { codes } = await setUpApp(browser);
  const action = `${SECURITY}/recovery-codes`;
  const settings = await browser.open(SECURITY);
  assert.match(
    settings.text,
    /<details class="fold" ?>\s*<summary>Make new codes …[^]*The 10 codes that you have stop working/,
  );
  const renewed = await browser.post(action, { nonce: nonceOf(settings, action) });
  const file = /href="data:text\/plain,([^"]+)" download=/.exec(renewed.text)?.[1] ?? '';
  assert.deepEqual(decodeURIComponent(file).trim().split('\n'), recoveryCodesOf(renewed));
  const again = newBrowser();
  const page = await again.signIn(email);
  assert.equal((await withCode(again, page, codes[0] ?? '')).status, 422);
  assert.equal((await withCode(again, page, recoveryCodesOf(renewed)[0] ?? '')).status, 303);
});

test('after five wrong codes even the right one has to wait, and a browser that signed in before does not', async () => {
  const { email, browser } = await newPerson();
  const { secret } = await setUpApp(browser);
  const guesser = newBrowser();
  const page = await guesser.signIn(email);
  for (let n = 0; n < 5; n += 1) assert.equal((await withCode(guesser, page, '111111')).status, 422);
  const refused = await withCode(guesser, page, codeOf(secret));
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '300']);
  await browser.post('/sign-out', {});
  assert.equal((await withCode(browser, await browser.signIn(email), codeOf(secret))).status, 303);
});

test('the second step ends with its time and with the password, and belongs to one account', async () => {
  const { email, browser } = await newPerson();
  const { secret } = await setUpApp(browser);
  const other = await newPerson();
  const { secret: otherSecret } = await setUpApp(other.browser);
  const again = newBrowser();
  const page = await again.signIn(email);
  const pending = fieldOf(page, 'pending');
  const made = createSealer(Buffer.alloc(32, 251)).seal(
    JSON.stringify({ until: 8.64e15, value: { id: other.id } }),
    'pending sign-in',
  );
  const forged = ['', 'x', pending.slice(0, -2), pending.slice(0, 40) + pending.slice(44), made.toString('base64url')];
  for (const one of forged) {
    const { status } = await answer(again, page, { pending: one, verification_code: codeOf(secret) });
    assert.deepEqual([status, await isSignedIn(again)], [422, false], one);
  }
  const { status } = await answer(again, page, { pending, verification_code: codeOf(otherSecret) });
  assert.deepEqual([status, await isSignedIn(again)], [422, false]);
  await sql`update users set password_hash = ${await passwords.hash('another password')} where email = ${email}`;
  assert.deepEqual([(await withCode(again, page, codeOf(secret))).status, await isSignedIn(again)], [422, false]);
  const late = newBrowser();
  const slow = await late.signIn(email, 'another password');
  wait(10 * 60_000);
  assert.deepEqual([(await withCode(late, slow, codeOf(secret))).status, await isSignedIn(late)], [422, false]);
});

test('a passkey signs in without a password, and is a second factor after it', async () => {
  const { email, browser } = await newPerson();
  const { authenticator, saved, codes } = await addPasskey(browser);
  assert.deepEqual([saved.status, codes.length], [200, 10]);
  const first = newBrowser();
  const options = optionsOf(await first.open('/sign-in?return_to=/account/clients'), 'data-passkey-get');
  const fields = { verification_passkey: authenticator.get(options), return_to: '/account/clients' };
  const { status, location } = await first.post('/sign-in/passkey', fields);
  assert.deepEqual([status, location, await isSignedIn(first)], [303, '/account/clients', true]);
  const second = newBrowser();
  const page = await second.signIn(email);
  assert.equal(await isSignedIn(second), false);
  const response = authenticator.get(optionsOf(page, 'data-passkey-get'));
  assert.equal((await answer(second, page, { verification_passkey: response })).status, 303);
  assert.ok(await isSignedIn(second));
});

test('a response of a passkey is accepted once, also by another process', async () => {
  const { browser } = await newPerson();
  const { authenticator } = await addPasskey(browser);
  const elsewhere = createBrowser(await server.startSecond());
  const options = optionsOf(await elsewhere.open('/sign-in'), 'data-passkey-get');
  const fields = { verification_passkey: authenticator.get(options) };
  const sent = [newBrowser(), elsewhere].map((each) => each.post('/sign-in/passkey', fields));
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  assert.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [303, 422],
  );
  assert.equal((await newBrowser().post('/sign-in/passkey', fields)).status, 422);
});

const forgeries = [
  ['of another site', { origin: 'https://evil.example' }],
  ['without verification of the user', { isVerified: false }],
  ['to a challenge that the server did not issue', { challenge: Buffer.alloc(54, 1).toString('base64url') }],
] as const;
for (const [what, forged] of forgeries) {
  test(`a response ${what} neither signs in nor registers`, async () => {
    const { browser } = await newPerson();
    const { authenticator } = await addPasskey(browser);
    const again = newBrowser();
    const options = optionsOf(await again.open('/sign-in'), 'data-passkey-get');
    const fields = { verification_passkey: authenticator.get(options, forged) };
    assert.equal((await again.post('/sign-in/passkey', fields)).status, 422);
    const page = await browser.open(SECURITY);
    const registration = createAuthenticator(ISSUER).create(optionsOf(page, 'data-passkey-create'), forged);
    const nonce = nonceOf(page, `${SECURITY}/passkeys`) || fieldOf(page, 'nonce');
    assert.equal((await browser.post(`${SECURITY}/passkeys`, { nonce, registration, name: 'x' })).status, 422);
  });
}

test('a challenge ends after ten minutes', async () => {
  const { browser } = await newPerson();
  const { authenticator } = await addPasskey(browser);
  const again = newBrowser();
  const response = authenticator.get(optionsOf(await again.open('/sign-in'), 'data-passkey-get'));
  wait(10 * 60_000);
  assert.equal((await again.post('/sign-in/passkey', { verification_passkey: response })).status, 422);
});

test('a passkey whose counter goes back was copied and is refused', async () => {
  const { browser } = await newPerson();
  const { authenticator } = await addPasskey(browser, 'Key', createAuthenticator(ISSUER, { counts: true }));
  const use = async (count: number) => {
    const again = newBrowser();
    const options = optionsOf(await again.open('/sign-in'), 'data-passkey-get');
    const fields = { verification_passkey: authenticator.get(options, { count }) };
    return (await again.post('/sign-in/passkey', fields)).status;
  };
  assert.deepEqual([await use(7), await use(7), await use(6), await use(8)], [303, 422, 422, 303]);
});

test('the passkey of another person is no second factor of mine', async () => {
  const { email, browser } = await newPerson();
  await addPasskey(browser);
  const { authenticator } = await addPasskey((await newPerson()).browser);
  const again = newBrowser();
  const page = await again.signIn(email);
  const response = authenticator.get(optionsOf(page, 'data-passkey-get'));
  assert.equal((await answer(again, page, { verification_passkey: response })).status, 422);
  assert.equal(await isSignedIn(again), false);
});

test('a disabled person does not sign in with a passkey', async () => {
  const { id, browser } = await newPerson();
  const { authenticator } = await addPasskey(browser);
  await sql`update users set date_disabled = now() where id = ${id}`;
  const again = newBrowser();
  const response = authenticator.get(optionsOf(await again.open('/sign-in'), 'data-passkey-get'));
  assert.equal((await again.post('/sign-in/passkey', { verification_passkey: response })).status, 422);
});

test('passkeys have names, and a removed one signs in no longer', async () => {
  const { id, email, browser } = await newPerson();
  const { authenticator } = await addPasskey(browser, 'Laptop');
  await addPasskey(browser, 'Phone');
  const [laptop] = await sql<{ id: number }[]>`select id from passkey where user_id = ${id} and name = 'Laptop'`;
  const at = `${SECURITY}/passkeys/${laptop?.id}`;
  const stranger = await newPerson();
  const page = await browser.open(SECURITY);
  assert.match(page.text, /Laptop[\s\S]*Phone/);
  const rename = { nonce: nonceOf(page, `${at}/rename`), name: 'Old <laptop>' };
  assert.equal((await stranger.browser.post(`${at}/rename`, rename)).status, 403);
  assert.equal((await browser.post(`${at}/rename`, rename)).status, 303);
  assert.match((await browser.open(SECURITY)).text, /Old &lt;laptop&gt;/);
  assert.equal((await browser.post(`${at}/remove`, { nonce: nonceOf(page, `${at}/remove`) })).status, 303);
  const again = newBrowser();
  const response = authenticator.get(optionsOf(await again.open('/sign-in'), 'data-passkey-get'));
  assert.equal((await again.post('/sign-in/passkey', { verification_passkey: response })).status, 422);
  assert.equal((await again.signIn(email)).status, 200, 'the phone is still required');
});

test('without any factor left the password signs in alone, and recovery codes end', async () => {
  const { id, email, browser } = await newPerson();
  await setUpApp(browser);
  const action = `${SECURITY}/app/remove`;
  assert.equal((await browser.post(action, { nonce: nonceOf(await browser.open(SECURITY), action) })).status, 303);
  assert.equal((await sql`select from recovery_code where user_id = ${id}`).length, 0);
  assert.equal((await newBrowser().signIn(email)).status, 303);
});

test('a password reset does not bypass the second factor', async () => {
  const { id, email, browser } = await newPerson();
  await setUpApp(browser);
  const again = newBrowser();
  const links = createLinks({ sql, config: readConfig({ BASE_URL: ISSUER }, '/') });
  const link = await links.issue(id, { origin: null, now: now() });
  const token = new URL(link ?? '').searchParams.get('token') ?? '';
  const reset = await again.post('/reset-password', { token, password: 'a battery, stapled' });
  assert.deepEqual([reset.status, await isSignedIn(again)], [200, false]);
  assert.match(reset.text, /name="pending"/);
  assert.equal((await newBrowser().signIn(email, 'a battery, stapled')).status, 200);
});

test('secrets are not readable in the database', async () => {
  const { id, browser } = await newPerson();
  const { secret, codes } = await setUpApp(browser);
  const [row] = await sql<{ stored: Buffer }[]>`select secret as stored from authenticator_app where user_id = ${id}`;
  assert.ok(row !== undefined && !row.stored.includes(Buffer.from(secret)));
  const hashes = await sql<{ hash: Buffer }[]>`select hash from recovery_code where user_id = ${id}`;
  for (const code of codes) assert.ok(hashes.every(({ hash }) => !hash.includes(Buffer.from(code))));
});

test('the account page lists what happened', async () => {
  const { browser } = await newPerson();
  await addPasskey(browser);
  await setUpApp(browser);
  const { text } = await browser.open('/account');
  for (const entry of ['Passkey added', 'Authenticator app set up']) assert.ok(text.includes(entry), entry);
});

test('whatever is sent in place of a code or passkey is refused with a page', async () => {
  const { browser } = await newPerson();
  const { authenticator } = await addPasskey(browser);
  const again = newBrowser();
  const genuine = authenticator.get(optionsOf(await again.open('/sign-in'), 'data-passkey-get'));
  const mutated = tuple(nat(genuine.length - 1), string({ maxLength: 3 })).map(([at, text]) => {
    return genuine.slice(0, at) + text + genuine.slice(at + 1);
  });
  const { id } = JSON.parse(genuine) as { id: string };
  const ofThisPasskey = json().map((text) => JSON.stringify({ id, response: text }));
  const send = async (text: string): Promise<number> => {
    const { status } = await newBrowser().post('/sign-in/passkey', { verification_passkey: text });
    // Fifty failures from one address have to wait.
    await sql`delete from throttle`;
    return status;
  };
  await check(
    asyncProperty(oneof(ofThisPasskey, string(), json()), async (text) => assert.equal(await send(text), 422)),
    { numRuns: amountOf('any-form', { all: 100, part: 30 }) },
  );
  // A change of a part that is not signed may be accepted.
  await check(
    asyncProperty(mutated, async (text) => assert.ok([303, 422].includes(await send(text)))),
    { numRuns: amountOf('any-form', { all: 100, part: 30 }) },
  );
});
