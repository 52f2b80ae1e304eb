/** Sign-in under attack: guessing is slow from anywhere, and the owner always gets in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAttempts } from '#accounts/attempts.ts';
import { createDevices } from '#accounts/device.ts';
import { createPasswords } from '#accounts/passwords.ts';
import { createThrottle } from '#accounts/throttle/throttle.ts';
import type { DoorRequest } from '#http/route.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Browser } from './oauth-server.ts';

const server = await startAuthorizationServer({ TRUSTED_PROXIES: '127.0.0.1' });
const { ada, bob, sql } = server;
const HOUR = 3_600_000;

/** Each test has an address of its own; the server trusts the proxy that the tests are. */
let places = 0;
const newPlace = () => {
  places += 1;
  return { 'X-Forwarded-For': `198.51.100.${places}` };
};
const guess = (browser: Browser, email: string, from = newPlace(), password = 'wrong password') =>
  browser.post('/sign-in', { email, password }, from);
const newBrowser = (origin = server.origin) => createBrowser(origin);

/** Guesses at an account, each from another address, until one is refused; how many were judged. */
const exhaust = async (email: string): Promise<number> => {
  for (let judged = 0; judged < 100; judged += 1) if ((await guess(newBrowser(), email)).status === 429) return judged;
  throw new Error('Guessing was never refused');
};
const assertRefused = async (email: string) => assert.equal((await guess(newBrowser(), email)).status, 429);

test('guessing at an account from ever new addresses is refused after ten, for the right password too', async () => {
  assert.equal(await exhaust(ada), 10);
  assert.equal((await guess(newBrowser(), ada, newPlace(), PASSWORD)).status, 429);
  assert.equal((await guess(newBrowser(), ada.toUpperCase())).status, 429, 'in whatever case it is written');
  server.wait(HOUR);
});

test('the page of a refusal says how long it takes, and what leads in meanwhile', async () => {
  await exhaust(ada);
  const page = await guess(newBrowser(), ada);
  assert.equal(page.headers.get('retry-after'), '60');
  assert.match(page.text, /Try again in 60 seconds/);
  assert.match(page.text, /href="\/forgot-password"/);
  server.wait(HOUR);
});

test('the owner gets in from a browser that has signed in before, whatever strangers do', async () => {
  const own = newBrowser();
  await own.signIn(ada);
  await own.post('/sign-out', {});
  await exhaust(ada);
  assert.equal((await own.signIn(ada)).status, 303);
  await assertRefused(ada);
  server.wait(HOUR);
});

test("guessing from the owner's own browser is slow as well, and holds up no other browser of theirs", async () => {
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

test('a forged device cookie gives no tries', async () => {
  const own = newBrowser();
  await own.signIn(ada);
  const [nonce = '', proof = ''] = (own.jar.get('halcyon-device') ?? '').split('.');
  await exhaust(ada);
  const forged = [`${'A'.repeat(22)}.${proof}`, `${nonce}.${'A'.repeat(43)}`, `${nonce}.`, nonce, `${nonce}.${proof}A`];
  for (const value of forged) {
    const thief = newBrowser();
    thief.jar.set('halcyon-device', value);
    assert.equal((await guess(thief, ada)).status, 429, value);
  }
  server.wait(HOUR);
});

test('one address has fifty guesses at whomever it tries, and takes none from the accounts afterwards', async () => {
  const here = newPlace();
  const subject = here['X-Forwarded-For'];
  for (let i = 0; i < 49; i += 1)
    await createThrottle({ sql }).take([{ limit: 'sign-in from address', subject }], server.now());
  assert.equal((await guess(newBrowser(), 'nobody@example.com', here)).status, 422);
  for (let i = 0; i < 12; i += 1) assert.equal((await guess(newBrowser(), bob, here)).status, 429);
  assert.equal((await guess(newBrowser(), bob)).status, 422, 'from elsewhere it is judged');
  server.wait(HOUR);
});

test('who gives the right password uses up nothing', async () => {
  const here = newPlace();
  for (let i = 0; i < 30; i += 1) assert.equal((await guess(newBrowser(), bob, here, PASSWORD)).status, 303);
});

test('a refused try computes no hash', async () => {
  const real = createPasswords({ hashesAtOnce: 2 });
  let judged = 0;
  const verify: typeof real.verify = (...given) => {
    judged += 1;
    return real.verify(...given);
  };
  const devices = createDevices({ key: Buffer.alloc(32, 1), authUrl: server.origin });
  const throttle = createThrottle({ sql });
  const attempt = createAttempts({ sql, throttle, devices, passwords: { ...real, verify } });
  const request = { address: '198.51.100.250', headers: {}, cookies: {}, now: server.now() } as unknown as DoorRequest;
  const kinds = await Promise.all(
    Array.from({ length: 30 }, () => attempt(request, { email: ada, password: 'wrong' })),
  );
  assert.equal(kinds.filter(({ kind }) => kind === 'wrong').length, 10);
  assert.equal(judged, 10);
  server.wait(HOUR);
});

test('a try that nobody had the time to judge uses up nothing', async () => {
  const devices = createDevices({ key: Buffer.alloc(32, 1), authUrl: server.origin });
  const busy = createPasswords({ hashesAtOnce: 0, hashesWaiting: 0 });
  const attempt = createAttempts({ sql, throttle: createThrottle({ sql }), devices, passwords: busy });
  const request = { address: '198.51.100.251', headers: {}, cookies: {}, now: server.now() } as unknown as DoorRequest;
  for (let i = 0; i < 11; i += 1)
    await assert.rejects(attempt(request, { email: ada, password: PASSWORD }), { status: 503 });
  assert.equal((await newBrowser().signIn(ada)).status, 303);
});

test('an account that does not exist is refused as one that does', async () => {
  assert.equal(await exhaust('nobody@example.com'), 10);
  server.wait(HOUR);
});

test('what one process has counted counts in another', async () => {
  await exhaust(ada);
  const second = await server.startSecond();
  assert.equal((await guess(newBrowser(second), ada)).status, 429);
  server.wait(HOUR);
});

test('the device cookie is for this host alone, out of reach of scripts, and lasts a year', async () => {
  const [, plain = ''] = (await newBrowser().signIn(ada)).headers.getSetCookie();
  assert.match(plain, /^halcyon-device=[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}; /);
  for (const part of ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Max-Age=31536000']) assert.ok(plain.includes(part), part);
  const devices = createDevices({ key: Buffer.alloc(32, 1), authUrl: 'https://auth.example.com' });
  const secure = devices.remember(ada);
  assert.match(secure, /^__Host-halcyon-device=/);
  assert.ok(secure.includes('Secure') && !secure.includes('Domain'));
  const value = /=([^;]*)/.exec(secure)?.[1];
  const request = { cookies: { '__Host-halcyon-device': value } } as unknown as DoorRequest;
  assert.equal(devices.recognize(request, 'ADA@example.com'), value?.split('.')[0]);
  assert.equal(devices.recognize(request, bob), undefined);
});

test('two spellings that the database takes for one account are one account to guess at', async () => {
  await sql`insert into users (id, email, password_hash, date_created) select 9, 'ida@example.com', password_hash, now() from users limit 1`;
  const [found] = await sql<{ one: boolean }[]>`select lower('İda@example.com') = lower('ida@example.com') as one`;
  for (let i = 0; i < 10; i += 1) await guess(newBrowser(), i % 2 === 0 ? 'ida@example.com' : 'IDA@example.com');
  assert.equal((await guess(newBrowser(), 'ida@example.com')).status, 429);
  assert.equal((await guess(newBrowser(), 'İda@example.com')).status, found?.one === true ? 429 : 422);
});
