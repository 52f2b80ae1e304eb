/** An account whose e-mail address is not verified works in the store of its invitation and nowhere else, and nothing of it outlives the proof. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { TOTP, Secret } from 'otpauth';
import { createLinks } from '#identity/accounts/password-change.ts';
import { readConfig } from '../../src/config/config.ts';
import { itemsOf } from '../setup/caller.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER, PASSWORD, readForm, type Browser } from './oauth-server.ts';
import { hiddenIn, newApp, submit } from './page-forms.ts';
import { routeTable } from './route-table.ts';

const MINUTE_MS = 60_000;
const NEW = 'a battery, stapled';
// Without mail: an open link makes the account at once, and the operator hands over the link to a new password.
const people = await startWithPeople();
const { sql, alpha, foreign, call, client, now } = people;
const links = createLinks({ sql, config: readConfig({ BASE_URL: ISSUER }, '/') });
const newBrowser = () => createBrowser(people.origin);
let count = 0;

async function platformToken(): Promise<string> {
  const granted = await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform });
  return String(granted.body['access_token']);
}
const inviteTo = async (store: number, role = 'owner') => {
  const made = await call('POST', `/stores/${store}/invitations`, { token: await platformToken(), body: { role } });
  return new URL(String(made.body['link'])).pathname;
};

/** Makes an account with an open link under a stranger's address, as anyone can who has one. */
async function squat() {
  people.wait(60 * MINUTE_MS);
  const email = `victim${(count += 1)}@example.com`;
  const browser = newBrowser();
  const joined = await browser.post(await inviteTo(foreign), { email, password: PASSWORD });
  assert.equal(joined.status, 303, joined.text);
  const [user] = await sql<{ id: number }[]>`select id from users where email = ${email}`;
  return { email, browser, id: user?.id ?? 0 };
}
type Account = Awaited<ReturnType<typeof squat>>;
/** What an earlier version allowed, or the operator has vouched for. */
const setVerified = ({ id }: Account, isVerified: boolean) =>
  sql`update users set is_email_verified = ${isVerified} where id = ${id}`;

/** The owner of the mailbox chooses a password with a link. */
async function prove({ id }: Pick<Account, 'id'>) {
  const link = await links.issue(id, { origin: null, now: now() });
  const token = new URL(link ?? '').searchParams.get('token') ?? '';
  const browser = newBrowser();
  const reset = await browser.post('/reset-password', { token, password: NEW });
  return { browser, reset };
}

const isRefused = ({ status, text }: { status: number; text: string }): boolean =>
  status === 403 && text.includes('Confirm your e-mail address');

async function consent(browser: Browser, scope: string) {
  const { location } = await browser.consent(people.asking({ scope }));
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  return (await people.redeem(code)).body;
}
async function setUpApp(browser: Browser) {
  const page = await browser.open('/account/security/app');
  const hidden = hiddenIn(page, '/account/security/app');
  const code = new TOTP({ secret: Secret.fromBase32(hidden['secret'] ?? '') }).generate({ timestamp: now().getTime() });
  return browser.post('/account/security/app', { ...hidden, code });
}

async function sandboxForm({ browser, id }: Account): Promise<Record<string, string>> {
  const page = await browser.open(`/users/${id}`, { Accept: 'text/html' });
  return hiddenIn(page, `/users/${id}/sandbox_store`);
}

/** Everything that can be attached to an account: attaches it, and returns whether it still works. */
const attachables: Readonly<Record<string, (account: Account) => Promise<() => Promise<boolean>>>> = {
  'a session': async ({ browser }) => {
    return async () => (await browser.open('/account')).status === 200;
  },
  'a password': async ({ email }) => {
    return async () => (await newBrowser().signIn(email)).status !== 422;
  },
  'an authenticator app': async ({ browser, email }) => {
    await setUpApp(browser);
    return async () => (await newBrowser().signIn(email, NEW)).text.includes('verification_code');
  },
  'a connected app': async ({ browser }) => {
    const { refresh_token: refreshToken } = await consent(browser, 'user_full_access');
    const form = { grant_type: 'refresh_token', refresh_token: String(refreshToken), ...client };
    return async () => (await people.token(form)).status === 200;
  },
  'an own app': async ({ browser }) => {
    const { clientId, secret } = await newApp(browser);
    const form = { grant_type: 'refresh_token', refresh_token: 'none', client_id: clientId, client_secret: secret };
    return async () => (await people.token(form)).body['error'] !== 'invalid_client';
  },
  'a membership': async ({ id }) => {
    return async () => (await sql`select from membership where user_id = ${id}`).length > 0;
  },
  'a sandbox store': async ({ browser, id }) => {
    await submit(browser, '/account/clients', '/account/sandbox-store');
    return async () => (await sql`select from store where sandbox_of = ${id}`).length > 0;
  },
  'a link to a new password': async ({ id }) => {
    const link = await links.issue(id, { origin: null, now: now() });
    const { pathname, search } = new URL(link ?? '');
    return async () => (await newBrowser().open(pathname + search)).status === 200;
  },
  'an invitation of a store': async ({ browser }) => {
    const path = `/stores/${foreign}/invitations`;
    const page = await browser.open(`/stores/${foreign}/members`, { Accept: 'text/html' });
    const made = await browser.post(path, { ...hiddenIn(page, path), role: 'member' }, { Accept: 'text/html' });
    const link = /\/invitations\/hal_in_[\w-]{43}/.exec(made.text)?.[0] ?? '';
    return async () => (await newBrowser().open(link)).status === 200;
  },
};

test('nothing that was attached to an account works after its address was verified for the first time', async () => {
  const names = Object.keys(attachables);
  const walk = fc.shuffledSubarray(names, { minLength: 1 });
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(walk, async (steps) => {
      const account = await squat();
      // Attached by an earlier version, which did not ask for a proof.
      await setVerified(account, true);
      const works: [string, () => Promise<boolean>][] = [];
      for (const step of steps) {
        const check = await attachables[step]?.(account);
        if (check !== undefined) works.push([step, check]);
        if (step !== 'an authenticator app') assert.ok(await check?.(), `${step} works at first`);
        seen.add(step);
      }
      await setVerified(account, false);
      const { browser, reset } = await prove(account);
      assert.deepEqual([reset.status, reset.location], [303, '/account?done=password']);
      for (const [step, check] of works) assert.equal(await check(), false, `${step} ends`);
      assert.match((await browser.open('/account')).text, new RegExp(account.email));
      assert.equal((await newBrowser().signIn(account.email, NEW)).status, 303);
      assert.equal((await browser.open('/account/security')).status, 200);
      assert.match((await browser.open('/account/erase')).text, /name="current"/, 'the owner can erase the account');
    }),
    { numRuns: 12, examples: [[names]] },
  );
  assert.deepEqual([...seen].toSorted(), names.toSorted());
});

test('a reset keeps what is attached to an account whose address was verified before', async () => {
  const account = await squat();
  await setVerified(account, true);
  const works = await attachables['a connected app']?.(account);
  const { browser } = await prove(account);
  assert.equal(await works?.(), true);
  assert.equal((await browser.open(`/stores/${foreign}/overview`, { Accept: 'text/html' })).status, 200);
});

/** The pages that an account without a verified address can open; each other page below /account, and each way in, is refused. */
const OPEN_PAGES = new Set(['/account', '/account/confirm', '/account/password', '/account/erase']);

test('an unverified account opens no page where something is attached to it', async () => {
  const { browser } = await squat();
  const pages = routeTable(ISSUER).filter(
    (route) => route.kind === 'raw' && 'GET' in route.operations && /^\/account(\/[^:]+)?$/.test(route.path),
  );
  assert.ok(pages.length > 8);
  for (const { path } of pages) {
    const page = await browser.open(path);
    assert.equal(isRefused(page), !OPEN_PAGES.has(path), `${path} ${page.status}`);
  }
  const asking = new URLSearchParams(people.asking({ scope: 'user_full_access' })).toString();
  for (const path of [`/authorize?${asking}`, '/device', await inviteTo(alpha)])
    assert.ok(isRefused(await browser.open(path)), path);
});

test('an unverified account sends no form that it opened before', async () => {
  const account = await squat();
  const { browser, id } = account;
  await setVerified(account, true);
  const path = await inviteTo(alpha);
  const page = await browser.open('/account/security/app');
  const app = hiddenIn(page, '/account/security/app');
  const asking = `/authorize?${new URLSearchParams(people.asking({ scope: 'user_full_access' })).toString()}`;
  const forms: [string, Record<string, string>][] = [
    ['/account/security/app', { ...app, code: '000000' }],
    ['/account/clients', hiddenIn(await browser.open('/account/clients/new'), '/account/clients')],
    ['/account/sandbox-store', hiddenIn(await browser.open('/account/clients'), '/account/sandbox-store')],
    [path, hiddenIn(await browser.open(path), path)],
    [`/users/${id}/sandbox_store`, await sandboxForm(account)],
    [asking, { nonce: readForm(await browser.open(asking)).nonce, decision: 'allow' }],
  ];
  await setVerified(account, false);
  for (const [action, form] of forms) {
    const refused = await browser.post(action, form, { Accept: 'text/html' });
    assert.equal(refused.status, 403, action);
    assert.match(refused.text, /Confirm your e-mail address|e-mail address is confirmed/);
  }
  const members = await sql<{ storeId: number }[]>`select store_id as "storeId" from membership where user_id = ${id}`;
  assert.deepEqual(
    members.map(({ storeId }) => storeId),
    [foreign],
  );
  const registered = await fetch(`${people.origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin', Cookie: browser.cookie() ?? '' },
    body: JSON.stringify({ redirect_uris: ['https://app.example.com/cb'], client_name: 'Own' }),
  });
  assert.deepEqual([registered.status, (await registered.text()).includes('email_not_verified')], [403, true]);
});

test('the platform does not add an account without a verified address: by e-mail it invites, by id it is refused', async () => {
  const { email, id } = await squat();
  const token = await platformToken();
  const members = `/stores/${alpha}/members`;
  const found = await call('GET', `/users?email=${encodeURIComponent(email)}`, { token });
  assert.deepEqual(
    itemsOf(found, 'users').map(({ is_email_verified: isVerified }) => isVerified),
    [false],
  );
  for (const address of [email, 'unknown@example.com']) {
    const invited = await call('POST', members, { token, body: { email: address, role: 'owner' } });
    assert.equal(invited.status, 201, JSON.stringify(invited.body));
    assert.deepEqual([invited.body['state'], invited.body['email']], ['pending', address]);
    assert.match(String(invited.body['link']), /\/invitations\/hal_in_/);
  }
  assert.equal((await call('POST', members, { token, body: { user: id, role: 'owner' } })).status, 400);
  assert.equal((await sql`select from membership where store_id = ${alpha} and user_id = ${id}`).length, 0);
  const added = await call('POST', members, { token, body: { email: people.bob, role: 'member' } });
  assert.deepEqual([added.status, added.body['role']], [201, 'member']);
});

test('an unverified account receives no invitations to its address', async () => {
  const account = await squat();
  const { email, browser, id } = account;
  const body = { email, role: 'owner' };
  const { body: made } = await call('POST', `/stores/${alpha}/invitations`, { token: await platformToken(), body });
  const path = `/users/${id}/invitations/${String(made['id'])}`;
  const open = () => browser.open(path, { Accept: 'text/html' });
  assert.equal((await open()).status, 404);
  await setVerified(account, true);
  assert.equal((await open()).status, 200);
});

test('the platform creates the account of a person whose address was taken by another', async () => {
  const { email, id, browser } = await squat();
  const token = await platformToken();
  const made = await call('POST', '/users', { token, body: { email, password: NEW } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  assert.notEqual(made.body['id'], id);
  assert.equal((await browser.open('/account')).status, 303);
  assert.equal((await call('POST', '/users', { token, body: { email, password: NEW } })).status, 409);
});

test('without mail, addresses with an account are shown five times in ten minutes, by however many links', async () => {
  people.wait(600 * MINUTE_MS);
  const statuses: number[] = [];
  for (let i = 0; i < 6; i += 1)
    statuses.push((await newBrowser().post(await inviteTo(alpha), { email: people.bob, password: NEW })).status);
  assert.deepEqual(statuses, [422, 422, 422, 422, 422, 429]);
  const free = await newBrowser().post(await inviteTo(alpha), { email: 'free@example.com', password: NEW });
  assert.equal(free.status, 429, 'an address without an account gets the same answer');
});
