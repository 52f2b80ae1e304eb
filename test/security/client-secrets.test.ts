/** Secrets of clients: shown once, stored as a hash, and replaced with an overlap. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rotateSecret } from '#identity/oauth/clients/client-change.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { credentialsIn, hiddenIn, newApp, REGISTERED, submit } from './page-forms.ts';
import { dump } from './at-rest/search.ts';
import { bothOf } from '../setup/suite-map.ts';

const server = await startAuthorizationServer();
const { browser, sql } = server;
const HOUR_MS = 3_600_000;

/** Returns whether /token accepts the secret: with it an invalid refresh token gets 400, without it the client 401. */
async function counts(clientId: string, secret: string): Promise<boolean> {
  const form = { grant_type: 'refresh_token', refresh_token: 'none', client_id: clientId, client_secret: secret };
  const { status } = await server.token(form);
  assert.ok(status === 400 || status === 401);
  return status === 400;
}

async function rotate(path: string, fields: Record<string, string> = {}) {
  const page = await submit(browser, path, `${path}/secret`, fields);
  assert.equal(page.status, 200);
  return credentialsIn(page).secret;
}

test('a secret is in one answer only, which may not be cached', async () => {
  const hidden = hiddenIn(await browser.open('/account/clients/new'), '/account/clients');
  const answer = await browser.post('/account/clients', { ...hidden, name: 'Once', redirect_uris: REGISTERED });
  const { clientId, secret } = credentialsIn(answer);
  assert.equal(answer.text.split(secret).length - 1, 1);
  assert.equal(answer.headers.get('cache-control'), 'no-store');
  assert.equal(answer.location, null);
  for (const path of ['/account', '/account/clients', `/account/clients/${clientId}`])
    assert.ok(!(await browser.open(path)).text.includes(secret), path);
});

test('a secret is nowhere in the database', async () => {
  const { path, secret } = await newApp(browser);
  const newer = await rotate(path);
  const text = (await Promise.all(bothOf(sql).map(dump))).join('\n');
  assert.ok(text.includes(path.slice(-24)), 'the search finds what is stored');
  for (const value of [secret, newer]) {
    const random = value.slice('hal_cs_'.length);
    assert.ok(!text.includes(random));
    assert.ok(!text.includes(Buffer.from(random, 'base64url').toString('hex')));
  }
});

test('after a rotation the old and the new secret work, later only the new one', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const newer = await rotate(path);
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, newer)], [true, true]);
  server.wait(24 * HOUR_MS - 1_000);
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, newer)], [true, true]);
  server.wait(1_000);
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, newer)], [false, true]);
  server.wait(-24 * HOUR_MS);
});

test('a further rotation ends no secret before its time, whichever of them the app uses', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const second = await rotate(path);
  server.wait(HOUR_MS);
  const third = await rotate(path);
  const all = async () => Promise.all([secret, second, third].map((one) => counts(clientId, one)));
  assert.deepEqual(await all(), [true, true, true]);
  server.wait(23 * HOUR_MS);
  assert.deepEqual(await all(), [false, true, true], 'the first keeps its end');
  server.wait(HOUR_MS);
  assert.deepEqual(await all(), [false, false, true]);
  server.wait(-25 * HOUR_MS);
});

test('a leaked secret ends at once with all before it', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const second = await rotate(path);
  const third = await rotate(path, { at_once: '1' });
  const all = await Promise.all([secret, second, third].map((one) => counts(clientId, one)));
  assert.deepEqual(all, [false, false, true]);
});

test('at most five secrets are valid, and the page explains how to create another one', async () => {
  const { clientId, path, secret } = await newApp(browser);
  for (let made = 1; made < 5; made += 1) await rotate(path);
  const refused = await submit(browser, path, `${path}/secret`);
  assert.equal(refused.status, 409);
  assert.match(refused.text, /\b5 secrets\b[^<]*\bexpire\b/);
  assert.equal(await counts(clientId, secret), true);
  await rotate(path, { at_once: '1' });
  assert.equal(await counts(clientId, secret), false);
});

test('the old secret ends at once if the owner asks for it', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const newer = await rotate(path, { at_once: '1' });
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, newer)], [false, true]);
});

test('the older secret can be ended before its time', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const newer = await rotate(path);
  const { location } = await submit(browser, path, `${path}/end-older-secret`);
  assert.equal(location, `${path}?done=ended`);
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, newer)], [false, true]);
  assert.doesNotMatch((await browser.open(path)).text, /end-older-secret/);
});

test('a double click creates one new secret, and the old one stays valid', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const hidden = hiddenIn(await browser.open(path), `${path}/secret`);
  const answers = await Promise.all([browser.post(`${path}/secret`, hidden), browser.post(`${path}/secret`, hidden)]);
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 409],
  );
  assert.equal(await counts(clientId, secret), true);
  assert.match(answers.find(({ status }) => status === 409)?.text ?? '', /create another/);
});

test('after a double click without the new secret the owner creates another, and the old one stays valid for its day', async () => {
  const { clientId, path, secret } = await newApp(browser);
  const hidden = hiddenIn(await browser.open(path), `${path}/secret`);
  await browser.post(`${path}/secret`, hidden);
  assert.equal((await browser.post(`${path}/secret`, hidden)).status, 409);
  const seen = await rotate(path);
  server.wait(24 * HOUR_MS - 1_000);
  assert.deepEqual([await counts(clientId, secret), await counts(clientId, seen)], [true, true]);
  server.wait(1_000 - 24 * HOUR_MS);
});

test('after concurrent rotations no more than five secrets are left', async () => {
  const { clientId } = await newApp(browser);
  const now = new Date('2026-07-01T12:00:00Z');
  const doer = { userId: null, origin: null, now };
  const all = Array.from({ length: 8 }, () => rotateSecret(sql, { clientId, overlapHours: 24 }, doer));
  await Promise.allSettled(all);
  const live = await sql`
    select from client_secret s join client c on c.id = s.client
    where c.client_id = ${clientId} and (s.date_expires is null or s.date_expires > ${now})`;
  assert.equal(live.length, 5);
});

test('the page shows when secrets were created and when they end', async () => {
  const { path } = await newApp(browser);
  await rotate(path);
  const { text } = await browser.open(path);
  assert.match(text, /valid until you replace it/);
  assert.match(text, /expires\s+<time datetime="2026-07-02T10:00:00\.000Z">/);
});

test('a public app cannot create a secret', async () => {
  const { path } = await newApp(browser, { is_public: '1' });
  assert.doesNotMatch((await browser.open(path)).text, /Create a new secret/);
  await assert.rejects(
    rotateSecret(sql, { clientId: path.slice(-24), overlapHours: 0 }, { userId: null, origin: null, now: new Date() }),
    { status: 404 },
  );
});
