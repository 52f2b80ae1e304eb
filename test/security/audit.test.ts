/** Each sign-in, sign-out and change of access has an audit entry with actor, action, address and time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser, createUser, prepareUser } from '#identity/accounts/users.ts';
import { browserOf, describeAction } from '#identity/accounts/audit.ts';
import { transaction } from '#db/pool.ts';
import { createBrowser, PASSWORD, readForm, startAuthorizationServer } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer();
const { sql } = server;
const AGENT = { 'User-Agent': 'probe/1.0' };

let people = 0;
async function newPerson() {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  return { id, email, browser: createBrowser(server.origin) };
}

type Row = { action: string; address: string | null; userAgent: string | null; at: Date };
const actionRoutesOf = (userId: number) => sql<Row[]>`
  select action, address, user_agent as "userAgent", date_created as at from audit
  where user_id = ${userId} order by id
`;
const actionsOf = async (userId: number) => (await actionRoutesOf(userId)).map(({ action }) => action);

test('a sign-in, a failed one and a sign-out have a row each, with address, browser and time', async () => {
  const { id, email, browser } = await newPerson();
  server.wait(1_000);
  await browser.post('/sign-in', { email, password: 'wrong password' }, AGENT);
  await browser.post('/sign-in', { email, password: PASSWORD }, AGENT);
  await browser.post('/sign-out', {}, AGENT);
  const [, ...rows] = await actionRoutesOf(id);
  const seen = { address: '127.0.0.1', userAgent: 'probe/1.0', at: server.now() };
  assert.deepEqual(
    [...rows],
    [
      { action: 'sign_in_failed', ...seen },
      { action: 'signed_in', ...seen },
      { action: 'signed_out', ...seen },
    ],
  );
});

test('a failed sign-in with an unknown address has no user, and the address is stored nowhere', async () => {
  const email = 'unknown.person@example.com';
  await createBrowser(server.origin).post('/sign-in', { email, password: 'wrong password' }, AGENT);
  const rows = await sql`select id from audit where action = 'sign_in_failed' and user_id is null`;
  assert.equal(rows.length, 1);
  const all = await sql<{ row: string }[]>`select audit::text as row from audit`;
  assert.ok(all.every(({ row }) => !row.includes(email)));
});

test('signing out without a session has no audit entry', async () => {
  const before = await sql`select id from audit`;
  await createBrowser(server.origin).post('/sign-out', {});
  assert.equal((await sql`select id from audit`).length, before.length);
});

test('a change of the password has its row', async () => {
  const { id, email, browser } = await newPerson();
  await browser.signIn(email);
  const { nonce } = readForm(await browser.open('/account/password'));
  await browser.post('/account/password', { nonce, current: PASSWORD, password: 'a battery, stapled' });
  assert.deepEqual(await actionsOf(id), ['user_created', 'signed_in', 'password_changed']);
});

test('a user is created with its audit entry or not at all', async () => {
  const user = await prepareUser(passwords, { email: 'undone@example.com', password: PASSWORD });
  const undone = transaction(sql, async (tx) => {
    await addUser(tx, user, { origin: null, now: server.now() });
    throw new Error('undone');
  });
  await assert.rejects(undone, /undone/);
  assert.equal((await sql`select id from users where email = 'undone@example.com'`).length, 0);
  const rows = await sql`select id from audit where user_id is not null and user_id not in (select id from users)`;
  assert.equal(rows.length, 0);
});

test('no password is in the audit', async () => {
  const all = await sql<{ row: string }[]>`select audit::text as row from audit`;
  for (const secret of [PASSWORD, 'wrong password', 'a battery, stapled'])
    assert.ok(
      all.every(({ row }) => !row.includes(secret)),
      secret,
    );
});

test('a long User-Agent, or one in other scripts, is shortened and reduced to plain characters', async () => {
  const { id, email, browser } = await newPerson();
  await browser.post('/sign-in', { email, password: PASSWORD }, { 'User-Agent': `é${'x'.repeat(600)}` });
  const [, row] = await actionRoutesOf(id);
  assert.equal(row?.userAgent, `?${'x'.repeat(511)}`);
});

for (const [userAgent, words] of [
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36',
    'Chrome on Android',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1',
    'Safari on iOS',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) AppleWebKit/605.1 (KHTML, like Gecko) Version/19.0 Safari/605.1',
    'Safari on macOS',
  ],
  [
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/150.0.0.0 Safari/537.36',
    'Chrome on Linux',
  ],
  ['curl/8.14.1', 'curl'],
  [`unheard/${'1'.repeat(60)}`, `unheard/${'1'.repeat(32)}…`],
  [null, ''],
] as const) {
  test(`the device is shown as ${JSON.stringify(words)} for ${JSON.stringify(userAgent)?.slice(0, 60)}`, () =>
    assert.equal(browserOf(userAgent), words));
}

test('an action of a later version is shown by its name', () => assert.equal(describeAction('moved'), 'moved'));
