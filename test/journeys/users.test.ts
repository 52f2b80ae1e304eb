/** Users by the platform and by the operator: over the API and on the command line. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createBrowser, ISSUER, PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { runCommand } from '../setup/command.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { urlOf } from '../setup/database.ts';

const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const server = await startAuthorizationServer({ SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' });
const { sql, ada, adaId, bobId } = server;

const tokenOf = async (scope: 'store_full_access' | 'user_full_access'): Promise<string> =>
  String((await server.redeem(await server.newCode({ scope }))).body['access_token']);
const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
const platform = String(granted.body['access_token']);

type Representation = {
  _links: Record<string, { href: string }>;
  _embedded?: Record<string, Representation[]>;
} & Record<string, unknown>;

async function call(method: string, path: string, token: string, body?: object, origin = server.origin) {
  const response = await fetch(origin + path, {
    method,
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const { status, headers } = response;
  return { status, headers, body: (await response.json()) as Representation };
}
const faultsOf = ({ body }: { body: Representation }) =>
  body._embedded?.['svc:errors']?.map(({ field, code }) => `${String(field)} ${String(code)}`);

const actionRoutesOf = (userId: unknown, action: string) => sql<{ address: string | null; client: number | null }[]>`
  select address, client from audit where user_id = ${Number(userId)} and action = ${action}
`;

test('the platform creates a user with a password, who signs in with it', async () => {
  const made = await call('POST', '/users', platform, { email: 'New@example.com', password: PASSWORD });
  const { id, email, date_created: created, _links: links, ...rest } = made.body;
  assert.equal(made.status, 201);
  assert.equal(made.headers.get('location'), `${ISSUER}/users/${String(id)}`);
  assert.deepEqual(
    [email, created, rest],
    ['new@example.com', '2026-07-01T10:00:00+0000', { is_email_verified: true, external_id: null }],
  );
  assert.equal(links['self']?.href, `${ISSUER}/users/${String(id)}`);
  assert.equal((await createBrowser(server.origin).signIn('new@example.com')).status, 303);
  assert.equal(mails.unread().length, 0);
  const [entry, ...more] = await actionRoutesOf(id, 'user_created');
  assert.deepEqual([entry?.address, more.length], ['127.0.0.1', 0]);
  assert.ok(entry?.client);
});

test('a user without a password is mailed a link by which they choose one', async () => {
  const { status } = await call('POST', '/users', platform, { email: 'link@example.com' });
  assert.equal(status, 201);
  const mail = await mails.next();
  assert.deepEqual(mail.to, ['link@example.com']);
  const [, token = ''] = /\/reset-password\?token=(hal_pr_\S+)$/m.exec(mail.text) ?? [];
  const browser = createBrowser(server.origin);
  assert.equal((await browser.post('/reset-password', { token, password: PASSWORD })).status, 303);
  assert.match((await browser.open('/account')).text, /link@example\.com/);
});

for (const [what, body, faults] of [
  ['without an address', {}, ['email required']],
  ['with every error', { email: 'x', password: 'short' }, ['password too_short', 'email invalid_value']],
  ['with an unknown property', { email: 'y@example.com', is_admin: true }, ['is_admin unknown_property']],
  [
    'whose password is the address',
    { email: 'long.enough@example.com', password: 'LONG.enough@example.com' },
    ['password invalid_value'],
  ],
] as const) {
  test(`a user ${what} is rejected`, async () => {
    const refused = await call('POST', '/users', platform, body);
    assert.deepEqual([refused.status, faultsOf(refused)], [400, faults]);
  });
}

test('without a mail server a user needs a password, since there is no other way to set one', async () => {
  const mute = await startAuthorizationServer();
  const asked = await mute.token({ grant_type: 'client_credentials', scope: 'platform', ...mute.platform });
  const token = String(asked.body['access_token']);
  const users = () => mute.sql`select id from users`;
  const before = await users();
  const refused = await call('POST', '/users', token, { email: 'x' }, mute.origin);
  assert.deepEqual([refused.status, faultsOf(refused)], [400, ['email invalid_value', 'password required']]);
  assert.equal((await call('POST', '/users', token, { email: 'mute@example.com' }, mute.origin)).status, 400);
  assert.equal((await users()).length, before.length);
  const made = { email: 'mute@example.com', password: PASSWORD };
  assert.equal((await call('POST', '/users', token, made, mute.origin)).status, 201);
});

test('an address is accepted in any case of letters', async () => {
  const refused = await call('POST', '/users', platform, { email: ada.toUpperCase(), password: PASSWORD });
  assert.deepEqual([refused.status, faultsOf(refused)], [409, ['email email_taken']]);
});

test('the platform sees all users, an app only the one that it acts for', async () => {
  const [user, store] = [await tokenOf('user_full_access'), await tokenOf('store_full_access')];
  const status = async (token: string, id: number) => (await call('GET', `/users/${id}`, token)).status;
  const seen = [platform, user, store].map((token) => Promise.all([status(token, adaId), status(token, bobId)]));
  assert.deepEqual(await Promise.all(seen), [
    [200, 200],
    [200, 404],
    [200, 404],
  ]);
  assert.equal(await status(platform, 999_999_999), 404);
});

test('an e-mail address is shown to the platform and to its own user, and to no app', async () => {
  const email = async (token: string) => (await call('GET', `/users/${adaId}`, token)).body['email'];
  assert.equal(await email(platform), ada);
  for (const scope of ['store_full_access', 'user_full_access'] as const)
    assert.equal(await email(await tokenOf(scope)), null);
  const page = (from: typeof server.browser) =>
    fetch(`${server.origin}/users/${adaId}`, {
      headers: { Accept: 'text/html', Cookie: from.cookie() ?? '' },
      redirect: 'manual',
    });
  assert.match(await (await page(server.browser)).text(), /ada@example\.com/);
  const bob = createBrowser(server.origin);
  await bob.signIn(server.bob);
  assert.equal((await page(bob)).status, 404);
});

test('a user links to stores and connected apps, and to their own apps unless an app of one store asks', async () => {
  const links = async (token: string) => {
    const { _links: found } = (await call('GET', `/users/${adaId}`, token)).body;
    return ['svc:stores', 'svc:grants', 'svc:clients'].map((rel) => found[rel]?.href);
  };
  const [stores, grants] = [`${ISSUER}/stores`, `${ISSUER}/users/${adaId}/grants`];
  const all = [stores, grants, `${ISSUER}/users/${adaId}/clients`];
  assert.deepEqual(await links(platform), all);
  assert.deepEqual(await links(await tokenOf('user_full_access')), all);
  assert.deepEqual(await links(await tokenOf('store_full_access')), [stores, grants, undefined]);
});

test('the platform lists users, filtered by their address', async () => {
  const listed = async (query: string) => {
    const { body } = await call('GET', `/users?${query}`, platform);
    return body._embedded?.['svc:users']?.map((user) => user['id']);
  };
  assert.deepEqual(await listed(`email=${ada}`), [adaId]);
  assert.deepEqual((await listed('limit=2&order=id'))?.length, 2);
  for (const scope of ['store_full_access', 'user_full_access'] as const)
    assert.equal((await call('GET', '/users', await tokenOf(scope))).status, 403);
});

test('a user is found by any spelling of the address', async () => {
  const idsOf = async (email: string, name = 'email') => {
    const { body } = await call('GET', `/users?${name}=${encodeURIComponent(email)}`, platform);
    return body._embedded?.['svc:users']?.map((user) => user['id']);
  };
  for (const spelling of [ada.toUpperCase(), ada.replace('.com', '。com')])
    assert.deepEqual(await idsOf(spelling), [adaId]);
  assert.deepEqual(await idsOf(`other@example.com,${ada.toUpperCase()}`, 'email:in'), [adaId]);
  const others = (await idsOf(ada.toUpperCase(), 'email:not')) ?? [];
  assert.deepEqual([others.length > 0, others.includes(adaId)], [true, false]);
});

test('a user created twice under one idempotency key is created once, and mailed once', async () => {
  const ask = () =>
    fetch(`${server.origin}/users`, {
      method: 'POST',
      headers: {
        'SERVICE-API-VERSION': '1',
        Authorization: `Bearer ${platform}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': 'once',
      },
      body: JSON.stringify({ email: 'once@example.com' }),
    });
  const [first, second] = [await ask(), await ask()];
  assert.deepEqual([first.status, await first.json()], [second.status, await second.json()]);
  assert.deepEqual((await mails.next()).to, ['once@example.com']);
  assert.equal(mails.unread().length, 0);
});

test('neither a password nor its hash is ever shown', async () => {
  const { body } = await call('GET', `/users/${adaId}`, platform);
  assert.deepEqual(
    Object.keys(body).toSorted((a, b) => a.localeCompare(b)),
    ['_links', 'date_created', 'email', 'external_id', 'id', 'is_email_verified'],
  );
});

function program(...args: string[]) {
  const settings = {
    DATABASE_URL: urlOf(server.address),
    HALCYON_SECRET_KEY: '07'.repeat(32),
    AUTH_URL: 'https://auth.example.com',
    LOG_LEVEL: 'silent',
  };
  return runCommand(['user', ...args], settings);
}
async function printed(...args: string[]) {
  const { code, out, err } = await program(...args);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Record<string, unknown>;
}

test('the operator creates a user, gives them another password and ends their sessions with it', async () => {
  const made = await printed('create', 'cli@example.com');
  const browser = createBrowser(server.origin);
  assert.equal((await browser.signIn('cli@example.com', String(made['password']))).status, 303);
  const { password } = await printed('set-password', 'CLI@example.com');
  assert.notEqual(password, made['password']);
  assert.equal((await browser.open('/account')).status, 303);
  assert.equal((await createBrowser(server.origin).signIn('cli@example.com', String(password))).status, 303);
  for (const action of ['user_created', 'password_changed'])
    assert.deepEqual([...(await actionRoutesOf(made['id'], action))], [{ address: null, client: null }], action);
});

test('apps stay connected when the operator sets another password, unless requested otherwise', async () => {
  const token = await tokenOf('user_full_access');
  await printed('set-password', ada);
  assert.equal((await call('GET', `/users/${adaId}`, token)).status, 200);
  const { password } = await printed('set-password', ada, '--disconnect-apps');
  assert.equal((await call('GET', `/users/${adaId}`, token)).status, 401);
  assert.equal((await server.browser.signIn(ada, String(password))).status, 303);
});

test('the operator disables a user and enables them again, each with one audit entry', async () => {
  const browser = createBrowser(server.origin);
  await browser.signIn(server.bob);
  await printed('disable', server.bob);
  await printed('disable', server.bob);
  assert.equal((await browser.open('/account')).status, 303);
  assert.match((await program('reset-link', server.bob)).err, /is disabled: run halcyon user enable/);
  await printed('enable', server.bob);
  assert.equal((await browser.open('/account')).status, 303, 'the session has ended for good');
  await browser.signIn(server.bob);
  assert.equal((await browser.open('/account')).status, 200);
  for (const action of ['user_disabled', 'user_enabled'])
    assert.equal((await actionRoutesOf(bobId, action)).length, 1, action);
});

test('the operator creates a link to a new password', async () => {
  const { code, out } = await program('reset-link', server.bob);
  assert.equal(code, 0);
  const [, token = ''] =
    /^https:\/\/auth\.example\.com\/reset-password\?token=(hal_pr_[A-Za-z0-9_-]{43})\n$/.exec(out) ?? [];
  // The program uses the clock of the machine, the server that of the test.
  server.wait(Date.now() - server.now().getTime());
  const browser = createBrowser(server.origin);
  assert.equal((await browser.post('/reset-password', { token, password: 'another password' })).status, 303);
});

test('an unknown user is named in the error', async () => {
  const { code, err } = await program('disable', 'unknown@example.com');
  assert.deepEqual([code, / no user .* unknown@example\.com\n$/.test(err)], [1, true], err);
});

test('the operator removes lost second factors: the password alone signs in again, and all browsers are signed out', async () => {
  const { email, password } = await printed('create', 'lost@example.com');
  const browser = createBrowser(server.origin);
  const signIn = () => browser.signIn(String(email), String(password));
  await signIn();
  await server.sql`
    insert into authenticator_app select id, ${Buffer.alloc(64)}, 0, now() from users where email = ${String(email)}`;
  const asked = await createBrowser(server.origin).signIn(String(email), String(password));
  assert.deepEqual([asked.status, asked.location], [200, null], 'the second step is asked for');
  await printed('remove-second-factors', String(email));
  assert.equal((await browser.open('/account')).status, 303);
  assert.equal((await signIn()).status, 303);
});
