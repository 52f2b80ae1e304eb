/** Sign-in under attack: guessing is slow from anywhere, and the owner can always sign in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAttempts, createDevices, createThrottle } from '#identity/accounts/throttle.ts';
import { createPasswords } from '#identity/accounts/users.ts';
import { LOW_COST, passwords } from '../setup/passwords.ts';
import type { RawRequest } from '#http/route.ts';
import { createBrowser, PASSWORD, readForm, startAuthorizationServer, type Browser } from './oauth-server.ts';

const server = await startAuthorizationServer({ TRUSTED_PROXIES: '127.0.0.1' });
const { ada, bob, sql } = server;
const HOUR = 3_600_000;

/** Each test has an address of its own; the server trusts the tests as its proxy. */
let places = 0;
function newPlace() {
  places += 1;
  return { 'X-Forwarded-For': `198.51.100.${places}` };
}
const guess = (browser: Browser, email: string, from = newPlace(), password = 'wrong password') =>
  browser.post('/sign-in', { email, password }, from);
const newBrowser = (origin = server.origin) => createBrowser(origin);

/** Guesses at an account, each from another address, until one is rejected; returns how many were checked. */
async function exhaust(email: string): Promise<number> {
  for (let checked = 0; checked < 100; checked += 1)
    if ((await guess(newBrowser(), email)).status === 429) return checked;
  throw new Error('No guess was rejected');
}
/** The device cookies of a browser: name and value. */
const devicesOf = ({ jar }: Browser) => [...jar].filter(([name]) => name.startsWith('halcyon-device-'));
const assertRefused = async (email: string) => assert.equal((await guess(newBrowser(), email)).status, 429);

test('guesses at an account from ever new addresses are rejected after ten, for the right password too', async () => {
  assert.equal(await exhaust(ada), 10);
  assert.equal((await guess(newBrowser(), ada, newPlace(), PASSWORD)).status, 429);
  assert.equal((await guess(newBrowser(), ada.toUpperCase())).status, 429, 'in any case of letters');
  server.wait(HOUR);
});

test('the page of a rejection says how long it lasts, and offers a mail only if a mail server is set up', async () => {
  await exhaust(ada);
  const page = await guess(newBrowser(), ada);
  assert.equal(page.headers.get('retry-after'), '60');
  assert.match(page.text, /Try again in 60 seconds/);
  assert.match(page.text, /ask the operator of this service/);
  assert.doesNotMatch(page.text, /forgot-password/);
  server.wait(HOUR);
});

test('the owner can sign in from a browser that has signed in before, whatever others do', async () => {
  const own = newBrowser();
  await own.signIn(ada);
  await own.post('/sign-out', {});
  await exhaust(ada);
  assert.equal((await own.signIn(ada)).status, 303);
  await assertRefused(ada);
  server.wait(HOUR);
});

test("guesses from the owner's own browser are slowed as well, and do not affect their other browsers", async () => {
  const [stolen, own] = [newBrowser(), newBrowser()];
  for (const browser of [stolen, own]) await browser.signIn(ada);
  for (let i = 0; i < 10; i += 1) assert.equal((await guess(stolen, ada)).status, 422);
  assert.equal((await guess(stolen, ada)).status, 429);
  assert.equal((await own.signIn(ada)).status, 303);
  assert.equal((await newBrowser().signIn(ada)).status, 303);
  server.wait(HOUR);
});

test('a device that signed in to one account has no tries of its own for another', async () => {
  const bobs = newBrowser();
  await bobs.signIn(bob);
  await exhaust(ada);
  assert.equal((await guess(bobs, ada)).status, 429);
  server.wait(HOUR);
});

test('a browser in which two people sign in is a known device of both', async () => {
  const shared = newBrowser();
  for (const email of [ada, bob]) await shared.signIn(email);
  for (const email of [ada, bob]) {
    await exhaust(email);
    assert.equal((await shared.signIn(email)).status, 303, email);
  }
  server.wait(HOUR);
});

test('a browser is a known device of five accounts, those it signed in to last', async () => {
  await sql`
    insert into users (id, email, password_hash, date_created)
    select 100 + n, 'shared' || n || '@example.com', password_hash, now()
    from generate_series(1, 6) n, (select password_hash from users where email = ${ada}) owner
  `;
  const shared = newBrowser();
  const known: string[] = [];
  for (let n = 1; n <= 6; n += 1) {
    await shared.signIn(`shared${n}@example.com`);
    known.push(...devicesOf(shared).flatMap(([name]) => (known.includes(name) ? [] : [name])));
    server.wait(1_000);
  }
  assert.deepEqual(
    devicesOf(shared).map(([name]) => name),
    known.slice(1),
  );
});

test('a device cookie from before a new password gives no tries', async () => {
  const [own, old] = [newBrowser(), newBrowser()];
  for (const browser of [own, old]) await browser.signIn(bob);
  const { nonce } = readForm(await own.open('/account/password'));
  const form = { nonce, current: PASSWORD, password: 'a battery, stapled' };
  assert.equal((await own.post('/account/password', form)).status, 303);
  await exhaust(bob);
  assert.equal((await guess(old, bob)).status, 429);
  assert.equal((await guess(own, bob, newPlace(), 'a battery, stapled')).status, 303, 'this browser chose it');
  server.wait(HOUR);
  const again = readForm(await own.open('/account/password'));
  await own.post('/account/password', { nonce: again.nonce, current: form.password, password: PASSWORD });
});

test('a device cookie gives no tries after its year', async () => {
  const [own, other] = [newBrowser(), newBrowser()];
  await own.signIn(ada);
  server.wait(1_000);
  await other.signIn(ada);
  server.wait(365 * 24 * HOUR - 1_000);
  await exhaust(ada);
  assert.equal((await guess(own, ada)).status, 429);
  assert.equal((await guess(other, ada)).status, 422, 'a second before');
  server.wait(HOUR);
});

test('the cookies of four browsers give thirty guesses, not forty', async () => {
  let checked = 0;
  for (let n = 0; n < 4; n += 1) {
    const browser = newBrowser();
    await browser.signIn(ada);
    for (let i = 0; i < 10; i += 1) if ((await guess(browser, ada)).status === 422) checked += 1;
  }
  assert.equal(checked, 30);
  server.wait(HOUR);
});

test('a forged device cookie gives no tries', async () => {
  const own = newBrowser();
  await own.signIn(ada);
  const [[name, value] = assert.fail()] = devicesOf(own);
  const [nonce = '', since = '', proof = ''] = value.split('.');
  await exhaust(ada);
  for (const forged of [
    `${'A'.repeat(22)}.${since}.${proof}`,
    `${nonce}.${Number(since) + 1}.${proof}`,
    `${nonce}.${since}.${'A'.repeat(43)}`,
    `${nonce}.${since}.`,
    nonce,
    `${value}A`,
  ]) {
    const thief = newBrowser();
    thief.jar.set(name, forged);
    assert.equal((await guess(thief, ada)).status, 429, forged);
  }
  server.wait(HOUR);
});

test('one address has fifty guesses over all accounts, and uses up no tries of the accounts afterwards', async () => {
  const here = newPlace();
  const subject = here['X-Forwarded-For'];
  for (let i = 0; i < 49; i += 1)
    await createThrottle({ sql }).take([{ limit: 'sign-in from address', subject }], server.now());
  assert.equal((await guess(newBrowser(), 'unknown@example.com', here)).status, 422);
  for (let i = 0; i < 12; i += 1) assert.equal((await guess(newBrowser(), bob, here)).status, 429);
  assert.equal((await guess(newBrowser(), bob)).status, 422, 'from another address it is checked');
  server.wait(HOUR);
});

test('the right password uses up no tries', async () => {
  const here = newPlace();
  for (let i = 0; i < 30; i += 1) assert.equal((await guess(newBrowser(), bob, here, PASSWORD)).status, 303);
});

test('a rejected try computes no hash', async () => {
  const real = passwords;
  let checked = 0;
  const verify: typeof real.verify = (...given) => {
    checked += 1;
    return real.verify(...given);
  };
  const devices = createDevices({ keys: [Buffer.alloc(32, 1)], authUrl: server.origin });
  const throttle = createThrottle({ sql });
  const attempt = createAttempts({ sql, throttle, devices, passwords: { ...real, verify } });
  const request = { address: '198.51.100.250', headers: {}, cookies: {}, now: server.now() } as unknown as RawRequest;
  const kinds = await Promise.all(
    Array.from({ length: 30 }, () => attempt(request, { email: ada, password: 'wrong' })),
  );
  assert.equal(kinds.filter(({ kind }) => kind === 'wrong').length, 10);
  assert.equal(checked, 10);
  server.wait(HOUR);
});

test('a try that was not checked for lack of capacity uses up nothing', async () => {
  const devices = createDevices({ keys: [Buffer.alloc(32, 1)], authUrl: server.origin });
  const busy = createPasswords({ hashesAtOnce: 0, hashesWaiting: 0, cost: LOW_COST });
  const attempt = createAttempts({ sql, throttle: createThrottle({ sql }), devices, passwords: busy });
  const request = { address: '198.51.100.251', headers: {}, cookies: {}, now: server.now() } as unknown as RawRequest;
  for (let i = 0; i < 11; i += 1)
    await assert.rejects(attempt(request, { email: ada, password: PASSWORD }), { status: 503 });
  assert.equal((await newBrowser().signIn(ada)).status, 303);
});

test('an unknown account is rejected like an existing one', async () => {
  assert.equal(await exhaust('unknown@example.com'), 10);
  server.wait(HOUR);
});

test('the count is shared by all processes', async () => {
  await exhaust(ada);
  const second = await server.startSecond();
  assert.equal((await guess(newBrowser(second), ada)).status, 429);
  server.wait(HOUR);
});

test('the device cookie is for this host alone, hidden from scripts, and lasts a year', async () => {
  const [, plain = ''] = (await newBrowser().signIn(ada)).headers.getSetCookie();
  assert.match(plain, /^halcyon-device-[A-Za-z0-9_-]{12}=[A-Za-z0-9_-]{22}\.[0-9]{10}\.[A-Za-z0-9_-]{43}; /);
  for (const part of ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Max-Age=31536000']) assert.ok(plain.includes(part), part);
  const devices = createDevices({ keys: [Buffer.alloc(32, 1)], authUrl: 'https://auth.example.com' });
  const account = { email: ada, passwordHash: 'a hash' };
  const [secure = ''] = devices.remember({ cookies: {}, now: server.now() }, account);
  const [, name = '', value = ''] = /^(__Host-halcyon-device-[^=]*)=([^;]*)/.exec(secure) ?? [];
  assert.ok(secure.includes('Secure') && !secure.includes('Domain'));
  const request = { cookies: { [name]: value }, now: server.now() };
  assert.equal(devices.recognize(request, account), value.split('.')[0]);
});

test('all spellings of an address are counted as one', async () => {
  await sql`insert into users (id, email, password_hash, date_created) select 9, 'ida@example.com', password_hash, now() from users limit 1`;
  const spellings = [
    'ida@example.com',
    'IDA@example.com',
    ' ida@EXAMPLE.com',
    'ida@example。com',
    'ida@exam\u00ADple.com',
  ];
  for (let i = 0; i < 10; i += 1) await guess(newBrowser(), spellings[i % spellings.length] ?? '');
  for (const email of spellings) assert.equal((await guess(newBrowser(), email)).status, 429, email);
});
