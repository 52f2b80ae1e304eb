/** Common passwords are rejected wherever a person chooses one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { faultsOf } from '../setup/caller.ts';
import { createBrowser, PASSWORD, readForm } from './oauth-server.ts';
import { startWithPeople } from './api-callers.ts';
import { passwords } from '../setup/passwords.ts';

const { call, platformToken, sql, origin, ada, now } = await startWithPeople();
const COMMON = 'Password123!';
const EASY = /password is easy to guess: it differs little from a common password/;

test('the platform cannot create a user with a common password', async () => {
  const body = { email: 'new@example.com', password: COMMON };
  const refused = await call('POST', '/users', { token: platformToken, body });
  assert.deepEqual([refused.status, faultsOf(refused)], [400, ['password too_common']]);
});

test('a person who changes the password cannot choose a common one', async () => {
  const browser = createBrowser(origin);
  await browser.signIn(ada);
  const { nonce } = readForm(await browser.open('/account/password'));
  const page = await browser.post('/account/password', { nonce, current: PASSWORD, password: COMMON });
  assert.equal(page.status, 422);
  assert.match(page.text, EASY);
  assert.equal((await createBrowser(origin).signIn(ada)).status, 303);
});

test('a password set before the check keeps working', async () => {
  const email = 'earlier@example.com';
  await createUser(sql, passwords, { email, password: COMMON, now: now() });
  assert.equal((await createBrowser(origin).signIn(email, COMMON)).status, 303);
});
