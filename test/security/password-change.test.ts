/** The change of a password with the current one, and what it ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { transaction } from '#db/pool.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { createBrowser, PASSWORD, readForm, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer();
const { sql, ada } = server;
const second = await server.startSecond();
const NEW = 'a battery, stapled';

const newBrowser = (origin = server.origin) => createBrowser(origin);

let people = 0;
/** Creates a user for one test, signed in here and in a second process. */
async function newPerson() {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const [browser, elsewhere] = [newBrowser(), newBrowser(second)];
  for (const each of [browser, elsewhere]) await each.signIn(email);
  return { id, email, browser, elsewhere };
}

async function change(browser: Browser, fields: Record<string, string> = {}) {
  const { nonce } = readForm(await browser.open('/account/password'));
  return browser.post('/account/password', { nonce, current: PASSWORD, password: NEW, ...fields });
}

test('the new password works at once, and the old one no longer', async () => {
  const { email, browser } = await newPerson();
  const { status, location } = await change(browser);
  assert.deepEqual([status, location], [303, '/account?done=password']);
  assert.match((await browser.open('/account?done=password')).text, /role="status"/);
  assert.equal((await newBrowser().signIn(email)).status, 422);
  assert.equal((await newBrowser(second).signIn(email, NEW)).status, 303);
});

test('a password manager can read the user name of the form', async () => {
  const { email, browser } = await newPerson();
  const { text } = await browser.open('/account/password');
  const [field = ''] = /<input[^>]*autocomplete="username"[^>]*>/.exec(text) ?? [];
  assert.ok(field.includes(`value="${email}"`) && field.includes('hidden') && !field.includes('name='), field);
});

test('every other session ends at the next request in every process, and this one gets a new id', async () => {
  const { browser, elsewhere } = await newPerson();
  const old = browser.jar.get('halcyon') ?? '';
  await change(browser);
  assert.equal((await elsewhere.open('/account')).status, 303);
  assert.equal((await browser.open('/account')).status, 200);
  assert.notEqual(browser.jar.get('halcyon'), old);
  browser.jar.set('halcyon', old);
  assert.equal((await browser.open('/account')).status, 303);
});

test('a wrong current password changes nothing, is reported at its field and audited', async () => {
  const { id, email, browser, elsewhere } = await newPerson();
  const page = await change(browser, { current: 'wrong password' });
  assert.equal(page.status, 422);
  assert.match(page.text, /id="current"[^>]*aria-invalid="true"[^>]*aria-describedby="form-alert"/);
  assert.equal((await elsewhere.open('/account')).status, 200);
  assert.equal((await newBrowser().signIn(email)).status, 303);
  const rows = await sql`select action from audit where user_id = ${id} and action = 'sign_in_failed'`;
  assert.equal(rows.length, 1);
});

test('guesses at the current password are rejected after ten attempts', async () => {
  const { browser } = await newPerson();
  const statuses: number[] = [];
  for (let i = 0; i < 11; i += 1) statuses.push((await change(browser, { current: 'wrong password' })).status);
  assert.deepEqual([statuses.indexOf(429), statuses.length], [10, 11]);
});

for (const [what, password] of [
  ['too short', '🐎'.repeat(11)],
  ['too long', 'a'.repeat(1_001)],
] as const) {
  test(`a password that is ${what} is rejected at its field`, async () => {
    const { browser } = await newPerson();
    const page = await change(browser, { password });
    assert.equal(page.status, 422);
    assert.match(page.text, /id="password"[^>]*aria-invalid="true"[^>]*aria-describedby="password-hint form-alert"/);
    assert.ok(!page.text.includes(password), 'the typed password is not shown again');
  });
}

test('the e-mail address is rejected as a password, in any case of letters', async () => {
  const { email, browser } = await newPerson();
  assert.equal((await change(browser, { password: email.toUpperCase() })).status, 422);
});

test('a form without the nonce of this session changes nothing', async () => {
  const { email, browser, elsewhere } = await newPerson();
  const { nonce } = readForm(await elsewhere.open('/account/password'));
  for (const wrong of ['', nonce]) {
    const form = { nonce: wrong, current: PASSWORD, password: NEW };
    assert.equal((await browser.post('/account/password', form)).status, 403);
  }
  assert.equal((await newBrowser().signIn(email)).status, 303);
});

test('of two concurrent changes one succeeds', async () => {
  const { email, browser, elsewhere } = await newPerson();
  const forms = await Promise.all([browser, elsewhere].map((each) => each.open('/account/password')));
  const pages = await Promise.all(
    [browser, elsewhere].map((each, at) => {
      const { nonce } = readForm(forms[at] ?? assert.fail());
      return each.post('/account/password', { nonce, current: PASSWORD, password: `${NEW} ${at}` });
    }),
  );
  // The other one is refused, or is signed out already by the change.
  const hasChanged = pages.map(({ headers }) => headers.get('location')?.endsWith('/account?done=password') === true);
  assert.equal(hasChanged.filter(Boolean).length, 1);
  for (const [at, isCurrent] of hasChanged.entries())
    assert.equal((await newBrowser().signIn(email, `${NEW} ${at}`)).status, isCurrent ? 303 : 422);
});

test('a sign-in is rejected if the password changes meanwhile', async () => {
  const { id, email } = await newPerson();
  const { promise: committed, resolve: commit } = Promise.withResolvers<void>();
  const { promise: changed, resolve: confirmChanged } = Promise.withResolvers<void>();
  const changing = transaction(sql, async (tx) => {
    await tx`update users set password_hash = ${await passwords.hash(NEW)} where id = ${id}`;
    confirmChanged();
    await committed;
  });
  await changed;
  const signingIn = newBrowser().signIn(email);
  const held = until(
    () => waitingForLocks(sql),
    (count) => count > 0,
  );
  await Promise.race([signingIn, held]);
  commit();
  await changing;
  assert.equal((await signingIn).status, 422);
});

test('connected apps stay unless the box is ticked, and otherwise end at the next request in every process', async () => {
  const { body } = await server.redeem(await server.newCode());
  const token = String(body['access_token']);
  const readAt = (origin: string) =>
    fetch(`${origin}/stores/${server.alpha}`, {
      headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` },
    });
  const browser = newBrowser();
  await browser.signIn(ada);
  assert.equal((await change(browser)).status, 303);
  assert.equal((await readAt(second)).status, 200);
  assert.equal((await change(browser, { current: NEW, password: PASSWORD, end_grants: '1' })).status, 303);
  for (const origin of [server.origin, second]) assert.equal((await readAt(origin)).status, 401);
  const rows = await sql<{ detail: object }[]>`
    select detail from audit where user_id = ${server.adaId} and action = 'password_changed' order by id
  `;
  assert.deepEqual(
    rows.map(({ detail }) => detail),
    [{}, { grants_ended: 1 }],
  );
});
