/** The signed-in browsers of a person: their list, how each ends, and their lifetimes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createSessions } from '#identity/accounts/sessions.ts';
import { createUser } from '#identity/accounts/users.ts';
import { readConfig } from '../../src/config/config.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Browser, type Page } from './oauth-server.ts';
import { hiddenIn } from './page-forms.ts';
import { amountOf } from '../setup/amount.ts';
import { passwords } from '../setup/passwords.ts';
import { anyText } from '../setup/any-text.ts';

const server = await startAuthorizationServer({ SESSION_IDLE_DAYS: '5', SESSION_MAX_DAYS: '12' });
const { sql } = server;
const DAY = 86_400_000;
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
const CHROME = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36';

const newBrowser = () => createBrowser(server.origin);
const signInAs = (browser: Browser, email: string, agent = FIREFOX) =>
  browser.post('/sign-in', { email, password: PASSWORD }, { 'User-Agent': agent });

let people = 0;
/** Creates a user who is signed in in two browsers. */
async function newPerson() {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const [browser, elsewhere] = [newBrowser(), newBrowser()];
  await signInAs(browser, email);
  await signInAs(elsewhere, email, CHROME);
  return { id, email, browser, elsewhere };
}

const END = /\/account\/browsers\/\d+\/end(?=")/g;
const listOf = ({ text }: Page): string[] => {
  const [, list = ''] = /<ul class="entries" aria-labelledby="browsers">(.*?)<\/ul>/s.exec(text) ?? [];
  return [...list.matchAll(/<li>(.*?)<\/li>/gs)].map(([, entry = '']) =>
    entry
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
};
const endsIn = ({ text }: Page): string[] => text.match(END) ?? [];
const isSignedIn = async (browser: Browser): Promise<boolean> => (await browser.open('/account')).status === 200;
const sessionsOf = async (userId: number) =>
  sql<{ seen: Date | null; expires: Date; address: string | null; agent: string | null }[]>`
    select date_seen as seen, date_expires as expires, address, user_agent as agent
    from session where user_id = ${userId} order by id`;

/** The numbers of sessions in the audit entries. */
async function auditedOf(userId: number): Promise<number[]> {
  const rows = await sql<{ detail: { sessions: number } }[]>`
    select detail from audit where user_id = ${userId} and action = 'sessions_ended' order by id`;
  return rows.map(({ detail }) => detail.sessions);
}

test('the account page lists the signed-in browsers, this one first, with device, network address and dates', async () => {
  const { browser } = await newPerson();
  const [own, other, ...more] = listOf(await browser.open('/account'));
  assert.match(
    own ?? '',
    /^Firefox on Linux This browser Network address 127\.0\.0\.1 Last used .* 10:00 UTC Signed in/,
  );
  assert.match(other ?? '', /^Chrome on Windows Network address 127\.0\.0\.1 Last used .* Sign out$/);
  assert.deepEqual(more, []);
});

test('a browser that is signed out from another one has no access from its next request on', async () => {
  const { id, browser, elsewhere } = await newPerson();
  const page = await browser.open('/account');
  const [end = ''] = endsIn(page);
  const { status, location } = await browser.post(end, hiddenIn(page, end));
  assert.deepEqual([status, location], [303, '/account?done=ended#browsers']);
  assert.equal(await isSignedIn(elsewhere), false);
  const after = await browser.open('/account?done=ended');
  assert.equal(listOf(after).length, 1);
  assert.match(after.text, /role="status"/);
  assert.deepEqual(await auditedOf(id), [1]);
});

test('all other browsers are signed out at once, and this one stays', async () => {
  const { id, email, browser, elsewhere } = await newPerson();
  const third = newBrowser();
  await signInAs(third, email);
  const page = await browser.open('/account');
  await browser.post('/account/browsers/end-others', hiddenIn(page, '/account/browsers/end-others'));
  assert.deepEqual(await Promise.all([browser, elsewhere, third].map(isSignedIn)), [true, false, false]);
  assert.deepEqual(await auditedOf(id), [2]);
  assert.doesNotMatch((await browser.open('/account')).text, /end-others/, 'there is no other one left');
});

test('a form ends only the session that it was made for, and none of another person', async () => {
  const [one, two] = [await newPerson(), await newPerson()];
  const third = newBrowser();
  await signInAs(third, one.email);
  const page = await one.browser.open('/account');
  const [end = '', other = ''] = endsIn(page);
  const [foreign = ''] = endsIn(await two.browser.open('/account'));
  for (const path of [other, foreign]) assert.equal((await one.browser.post(path, hiddenIn(page, end))).status, 403);
  const all = [one.browser, one.elsewhere, third, two.browser, two.elsewhere];
  assert.deepEqual(await Promise.all(all.map(isSignedIn)), [true, true, true, true, true]);
});

test('a session that ended is not listed, and ending it again is no error', async () => {
  const { browser, elsewhere } = await newPerson();
  const page = await browser.open('/account');
  const [end = ''] = endsIn(page);
  await elsewhere.post('/sign-out', {});
  assert.equal(listOf(await browser.open('/account')).length, 1);
  assert.equal((await browser.post(end, hiddenIn(page, end))).status, 303);
});

test('a session ends when it was not used for the idle time, and each use extends it', async () => {
  const { browser, elsewhere } = await newPerson();
  server.wait(5 * DAY - 1_000);
  assert.equal(await isSignedIn(browser), true);
  server.wait(2_000);
  assert.deepEqual([await isSignedIn(browser), await isSignedIn(elsewhere)], [true, false]);
});

test('a session that is used every day ends at its maximum age', async () => {
  const { id, browser } = await newPerson();
  for (let day = 1; day < 12; day += 1) {
    server.wait(DAY);
    assert.equal(await isSignedIn(browser), true, `day ${day}`);
  }
  server.wait(DAY - 1_000);
  assert.equal(await isSignedIn(browser), true);
  server.wait(2_000);
  assert.equal(await isSignedIn(browser), false);
  const kept = (await sessionsOf(id)).filter(({ expires }) => expires > server.now());
  assert.deepEqual(kept, []);
});

test('a use is recorded with its place at most every five minutes', async () => {
  const { id, browser } = await newPerson();
  const first = async () => (await sessionsOf(id))[0];
  await browser.open('/account');
  assert.equal((await first())?.seen, null, 'the sign-in counts');
  server.wait(301_000);
  await browser.open('/account');
  const { seen, agent } = (await first()) ?? {};
  assert.deepEqual([seen, agent], [server.now(), 'node']);
  server.wait(299_000);
  await browser.open('/account');
  assert.deepEqual((await first())?.seen, seen);
});

test('a check by an open stream does not keep a session alive', async () => {
  const { id, browser } = await newPerson();
  const sessions = createSessions({ sql, config: readConfig({ BASE_URL: server.origin }, '/') });
  server.wait(DAY);
  assert.ok(await sessions.find({ cookies: Object.fromEntries(browser.jar), now: server.now() }));
  assert.equal((await sessionsOf(id))[0]?.seen, null);
});

test('a session that ends while it is used stays ended', async () => {
  for (let round = 0; round < 20; round += 1) {
    server.wait(301_000);
    const { id, browser, elsewhere } = await newPerson();
    const page = await browser.open('/account');
    server.wait(301_000);
    const uses = Array.from({ length: 6 }, () => elsewhere.open('/account'));
    const ended = browser.post('/account/browsers/end-others', hiddenIn(page, '/account/browsers/end-others'));
    const statuses = (await Promise.all([ended, ...uses])).map(({ status }) => status);
    assert.ok(
      statuses.every((status) => status === 200 || status === 303),
      statuses.join(' '),
    );
    assert.deepEqual([(await sessionsOf(id)).length, await isSignedIn(elsewhere)], [1, false]);
  }
});

test('no address of a session and no form ends one without its nonce, or is an internal error', async () => {
  const { browser, elsewhere } = await newPerson();
  const text = fc.oneof(anyText({ maxLength: 40 }), fc.constantFrom('0', '-1', '9'.repeat(30), '%00'));
  const id = text.map((value) => encodeURIComponent(value.toWellFormed()));
  const form = fc.dictionary(fc.constantFrom('nonce', 'id', 'session', 'x'), text);
  await fc.assert(
    fc.asyncProperty(fc.oneof(id, fc.constant(undefined)), form, async (given, fields) => {
      const path = given === undefined ? '/account/browsers/end-others' : `/account/browsers/${given}/end`;
      const { status } = await browser.post(path, fields);
      assert.ok([403, 404, 400, 414].includes(status), `${path} ${status}`);
    }),
    { numRuns: amountOf('any-form', { all: 150, part: 40 }) },
  );
  assert.equal(await isSignedIn(elsewhere), true);
});
