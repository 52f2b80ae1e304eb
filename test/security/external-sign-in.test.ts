/** Sign-in with OpenID providers: a real one, and one that lies. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { createUser } from '#identity/accounts/users.ts';
import { Secret, TOTP } from 'otpauth';
import { createCaller, faultsOf, itemsOf } from '../setup/caller.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { freePort } from '../setup/free-port.ts';
import { startObedientProvider, startRealProvider, type Lie } from '../setup/openid-provider.ts';
import { createBrowser, ISSUER, PASSWORD, startAuthorizationServer, type Browser, type Page } from './oauth-server.ts';
import { hiddenIn, submit } from './page-forms.ts';
import { passwords } from '../setup/passwords.ts';

const ends: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const end of ends.toReversed()) await end();
});
const CLIENT = { clientId: 'halcyon', clientSecret: 'a secret at the provider' };
const redirectUri = `${ISSUER}/sign-in/with/Real/callback`;
const real = await startRealProvider({ ...CLIENT, redirectUri });
ends.push(real.stop);
const acme = await startObedientProvider(CLIENT);
ends.push(acme.stop);
const partner = await startObedientProvider(CLIENT);
ends.push(partner.stop);
const mails = await startMailServer({ ignored: SECURITY_MAILS });
ends.push(() => mails.stop());

const DOMAIN = 'new.example';
const secrets = { client_id: CLIENT.clientId, client_secret: CLIENT.clientSecret };
const server = await startAuthorizationServer({
  SMTP_URL: mails.url,
  MAIL_FROM: 'halcyon@example.com',
  OPENID_PROVIDERS: JSON.stringify([
    { name: 'Real', issuer: real.issuer, ...secrets, domains: [DOMAIN], creates_accounts: true },
    { name: 'Acme', issuer: acme.issuer, ...secrets, domains: [DOMAIN, 'example.com'], creates_accounts: true },
    { name: 'Partner', issuer: partner.issuer, ...secrets },
    { name: 'Down', issuer: `http://127.0.0.1:${await freePort()}`, ...secrets },
  ]),
});
const { sql, now } = server;
const second = await server.startSecond();
const newBrowser = (origin = server.origin) => createBrowser(origin);

let people = 0;
const newEmail = (domain = DOMAIN): string => `person${(people += 1)}@${domain}`;
async function newPerson() {
  const email = newEmail('example.com');
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: now() });
  return { id, email };
}

const providers = { Acme: acme, Partner: partner };
type Name = keyof typeof providers;
const START = (name: string) => `/sign-in/with/${name}`;

/** Asks for the redirect to a provider, and returns what it sends there. */
async function start(browser: Browser, name: string, fields: Record<string, string> = {}) {
  const page = await browser.post(START(name), fields);
  assert.equal(page.status, 303, page.text);
  const { searchParams } = new URL(page.location ?? '');
  return { page, state: searchParams.get('state') ?? '', nonce: searchParams.get('nonce') ?? '' };
}

const callback = (browser: Browser, name: string, query: Record<string, string>): Promise<Page> =>
  browser.open(`${START(name)}/callback?${new URLSearchParams(query).toString()}`);

const claimsOf = (email: string) => ({ sub: `sub of ${email}`, email, email_verified: true });

/** Signs in as a person of the provider and returns the page after the callback; `change` is what the provider does wrong. */
async function signInWith(
  name: Name,
  email: string,
  {
    browser = newBrowser(),
    lie = {},
    query = {},
  }: { browser?: Browser; lie?: Lie; query?: Record<string, string> } = {},
) {
  const { state, nonce } = await start(browser, name);
  const code = providers[name].codeFor({ ...claimsOf(email), nonce }, lie);
  return callback(browser, name, { code, state, iss: providers[name].issuer, ...query });
}

const isSignedIn = async (browser: Browser): Promise<boolean> => (await browser.open('/account')).status === 200;
const usersWith = async (email: string) => sql<{ id: number }[]>`select id from users where email = ${email}`;
const identitiesOf = async (email: string) =>
  sql<{ subject: string }[]>`
    select e.subject from external_identity e join users u on u.id = e.user_id where u.email = ${email}`;
const auditOf = async (email: string) => {
  const rows = await sql<{ action: string; provider: string | null }[]>`
    select a.action, a.detail->>'provider' as provider from audit a join users u on u.id = a.user_id
    where u.email = ${email} order by a.id`;
  return Array.from(rows, ({ action, provider }) => [action, provider]);
};
/** Links a new account to Acme and returns it. */
async function newLinkedPerson() {
  const person = await newPerson();
  const browser = newBrowser();
  const fields = hiddenIn(await signInWith('Acme', person.email, { browser }), '/sign-in');
  const page = await browser.post('/sign-in', { ...fields, email: person.email, password: PASSWORD });
  assert.equal(page.status, 303);
  await mails.next();
  return { ...person, browser };
}

/** Goes through the pages of the real provider and returns the path of the callback. */
async function visitReal(location: string, email: string): Promise<string> {
  const browser = createBrowser(real.issuer);
  const pathOf = (address: string): string => address.slice(new URL(address).origin.length);
  let page = await browser.open(pathOf(location));
  for (let steps = 0; steps < 20; steps += 1) {
    const to = page.location === null ? undefined : new URL(page.location, real.issuer);
    if (to?.origin === ISSUER) return pathOf(to.href);
    if (to !== undefined) page = await browser.open(pathOf(to.href));
    else {
      const action = /action="([^"]*)"/.exec(page.text)?.[1] ?? '';
      const prompt = /name="prompt" value="([^"]*)"/.exec(page.text)?.[1] ?? '';
      page = await browser.post(pathOf(action), { prompt, login: email, password: 'any' });
    }
  }
  throw new Error(`No way back: ${page.status} ${page.text}`);
}

test('a new person of a real provider gets an account, and returns to it', async () => {
  const email = newEmail();
  const browser = newBrowser();
  const form = await browser.open('/sign-in?return_to=/account/security');
  assert.match(form.headers.get('content-security-policy') ?? '', /form-action 'self' http:\/\/localhost:\* /);
  const { page } = await start(browser, 'Real', hiddenIn(form, START('Real')));
  const arrived = await browser.open(await visitReal(page.location ?? '', email));
  assert.deepEqual([arrived.status, arrived.location], [303, '/account/security']);
  assert.equal(await isSignedIn(browser), true);
  const again = newBrowser();
  const { page: redirect } = await start(again, 'Real');
  assert.equal((await again.open(await visitReal(redirect.location ?? '', email))).location, '/home');
  assert.equal((await usersWith(email)).length, 1);
  assert.deepEqual(await auditOf(email), [
    ['user_created', null],
    ['external_identity_linked', 'Real'],
    ['signed_in', 'Real'],
    ['signed_in', 'Real'],
  ]);
});

test('an address that a real provider has not verified gets no account', async () => {
  const email = `unverified${newEmail()}`;
  const browser = newBrowser();
  const { page } = await start(browser, 'Real');
  assert.equal((await browser.open(await visitReal(page.location ?? '', email))).status, 422);
  assert.deepEqual([(await usersWith(email)).length, await isSignedIn(browser)], [0, false]);
});

test('an account is linked only by a sign-in with its password', async () => {
  const { email } = await newPerson();
  const browser = newBrowser();
  const page = await signInWith('Acme', email.toUpperCase(), { browser });
  assert.deepEqual([page.status, await isSignedIn(browser)], [200, false]);
  const fields = hiddenIn(page, '/sign-in');
  const wrong = await browser.post('/sign-in', { ...fields, email, password: 'not the password' });
  assert.deepEqual([wrong.status, (await identitiesOf(email)).length], [422, 0]);
  const right = await browser.post('/sign-in', { ...hiddenIn(wrong, '/sign-in'), email, password: PASSWORD });
  assert.deepEqual([right.status, (await identitiesOf(email)).length], [303, 1]);
  const mail = await mails.next();
  assert.deepEqual(mail.to, [email]);
  assert.match(mail.text, /Acme/);
  const later = newBrowser();
  assert.equal((await signInWith('Acme', email.toUpperCase(), { browser: later })).status, 303);
  assert.equal(await isSignedIn(later), true);
  assert.deepEqual((await auditOf(email)).slice(-3), [
    ['external_identity_linked', 'Acme'],
    ['signed_in', 'Acme'],
    ['signed_in', 'Acme'],
  ]);
});

test('an account whose address is not verified is replaced by that of the person whom a provider has verified', async () => {
  const email = newEmail();
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: now() });
  await sql`update users set is_email_verified = false where id = ${id}`;
  const { location } = await signInWith('Acme', email);
  assert.equal(location, '/home');
  const [user] = await sql<{ id: number }[]>`select id from users where email = ${email} and is_email_verified`;
  assert.ok(user !== undefined && user.id !== id);
  assert.equal((await newBrowser().signIn(email)).status, 422, 'the password of before is gone');
});

test('another account is not linked, a link ends after ten minutes, and it cannot be made up', async () => {
  const [person, other] = [await newPerson(), await newPerson()];
  const browser = newBrowser();
  const fields = hiddenIn(await signInWith('Acme', person.email, { browser }), '/sign-in');
  const asOther = await browser.post('/sign-in', { ...fields, email: other.email, password: PASSWORD });
  const { identity = '' } = fields;
  assert.doesNotMatch(Buffer.from(identity, 'base64url').toString('latin1'), /acme/i);
  const [row] = await sql<{ id: number }[]>`select id from users where email = ${person.email}`;
  const value = {
    issuer: 'https://x.example',
    subject: 'of the attacker',
    provider: 'Acme',
    userId: row?.id,
    isLinked: false,
  };
  const forged = createSealer(Buffer.alloc(32, 251)).seal(
    JSON.stringify({ until: 8.64e15, value }),
    'verified identity',
  );
  for (const changed of [forged.toString('base64url'), identity.slice(0, 40) + identity.slice(44)]) {
    const made = await browser.post('/sign-in', { identity: changed, email: person.email, password: PASSWORD });
    assert.equal(made.status, 422);
  }
  server.wait(601_000);
  const late = await browser.post('/sign-in', { ...fields, email: person.email, password: PASSWORD });
  assert.deepEqual([asOther.status, late.status, await isSignedIn(browser)], [422, 422, false]);
  assert.deepEqual([await identitiesOf(person.email), await identitiesOf(other.email)].flat(), []);
});

test('a second factor is still required after the provider', async () => {
  const { browser, email } = await newLinkedPerson();
  const app = '/account/security/app';
  const { nonce = '', secret = '' } = hiddenIn(await browser.open(app), app);
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  const code = () => totp.generate({ timestamp: now().getTime() });
  assert.equal((await browser.post(app, { nonce, secret, code: code() })).status, 200);
  await mails.next();
  server.wait(30_000);
  const other = newBrowser();
  const step = await signInWith('Acme', email, { browser: other });
  assert.deepEqual([step.status, await isSignedIn(other)], [200, false]);
  const fields = hiddenIn(step, '/sign-in/second-factor');
  const done = await other.post('/sign-in/second-factor', { ...fields, verification_code: code() });
  assert.deepEqual([done.status, await isSignedIn(other)], [303, true]);
  assert.deepEqual((await auditOf(email)).at(-1), ['signed_in', 'Acme']);
});

test('an unlinked identity does not sign in by the second step of an earlier callback', async () => {
  const { browser, email } = await newLinkedPerson();
  const app = '/account/security/app';
  const { nonce = '', secret = '' } = hiddenIn(await browser.open(app), app);
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  await browser.post(app, { nonce, secret, code: totp.generate({ timestamp: now().getTime() }) });
  await mails.next();
  server.wait(30_000);
  const other = newBrowser();
  const fields = hiddenIn(await signInWith('Acme', email, { browser: other }), '/sign-in/second-factor');
  await sql`delete from external_identity where subject = ${claimsOf(email).sub}`;
  const code = totp.generate({ timestamp: now().getTime() });
  const done = await other.post('/sign-in/second-factor', { ...fields, verification_code: code });
  assert.deepEqual([done.status, await isSignedIn(other), (await identitiesOf(email)).length], [422, false, 0]);
});

const past = Math.floor(Date.now() / 1_000) - 3_600;
const LIES: Record<string, Lie> = {
  'another issuer': { claims: { iss: 'https://elsewhere.example' } },
  'another audience': { claims: { aud: 'another client' } },
  'another nonce': { claims: { nonce: 'of another sign-in' } },
  'an expired token': { claims: { iat: past, exp: past + 60 } },
  'no signature': { isUnsigned: true },
  'the signature of another key': { hasForeignKey: true },
  'an address that is not verified': { claims: { email_verified: false } },
  'an address that is verified in words': { claims: { email_verified: 'true' } },
  'no address': { claims: { email: undefined } },
  'an address of another domain': { claims: { email: 'person@elsewhere.example' } },
};
for (const [what, lie] of Object.entries(LIES))
  test(`a token with ${what} is refused`, async () => {
    const browser = newBrowser();
    const email = newEmail();
    const page = await signInWith('Acme', email, { browser, lie });
    assert.deepEqual([page.status, await isSignedIn(browser), (await usersWith(email)).length], [422, false, 0]);
    assert.match(page.text, /role="alert"/);
  });

test('a code of another provider is refused: by its issuer, without one, and by the sign-in that was started', async () => {
  const email = newEmail();
  const browser = newBrowser();
  const foreign = await signInWith('Acme', email, { browser, query: { iss: partner.issuer } });
  const { state, nonce } = await start(browser, 'Acme');
  const code = acme.codeFor({ ...claimsOf(email), nonce });
  const nameless = await callback(browser, 'Acme', { code, state });
  const { state: ofAcme } = await start(browser, 'Acme');
  const requests = partner.requests.length;
  const mixed = await callback(browser, 'Partner', { code, state: ofAcme, iss: partner.issuer });
  assert.deepEqual([foreign.status, nameless.status, mixed.status], [422, 422, 422]);
  assert.equal(partner.requests.length, requests, 'the code is not sent to the other provider');
  assert.deepEqual([await isSignedIn(browser), (await usersWith(email)).length], [false, 0]);
});

test('a response that another browser asked for is refused', async () => {
  const email = newEmail();
  const [attacker, victim] = [newBrowser(), newBrowser()];
  const { state, nonce } = await start(attacker, 'Acme');
  const code = acme.codeFor({ ...claimsOf(email), nonce });
  const query = { code, state, iss: acme.issuer };
  assert.equal((await callback(victim, 'Acme', query)).status, 422);
  await start(victim, 'Acme');
  assert.equal((await callback(victim, 'Acme', query)).status, 422);
  assert.equal(await isSignedIn(victim), false);
});

test('a response works once, also with the cookie of before and in another process, and for ten minutes', async () => {
  const email = newEmail();
  const browser = newBrowser();
  const { state, nonce } = await start(browser, 'Acme');
  const cookies = new Map(browser.jar);
  const query = (code: string) => ({ code, state, iss: acme.issuer });
  assert.equal((await callback(browser, 'Acme', query(acme.codeFor({ ...claimsOf(email), nonce })))).status, 303);
  for (const origin of [server.origin, second]) {
    const replaying = newBrowser(origin);
    for (const [name, value] of cookies) replaying.jar.set(name, value);
    const replayed = await callback(replaying, 'Acme', query(acme.codeFor({ ...claimsOf(email), nonce })));
    assert.deepEqual([replayed.status, await isSignedIn(replaying)], [422, false]);
  }
  const late = newBrowser();
  const begun = await start(late, 'Acme');
  server.wait(601_000);
  const code = acme.codeFor({ ...claimsOf(email), nonce: begun.nonce });
  assert.equal((await callback(late, 'Acme', { code, state: begun.state, iss: acme.issuer })).status, 422);
});

test('a person who cancels at the provider sees the sign-in page', async () => {
  const browser = newBrowser();
  const { state } = await start(browser, 'Acme');
  const page = await callback(browser, 'Acme', { error: 'access_denied', state, iss: acme.issuer });
  assert.deepEqual([page.status, await isSignedIn(browser)], [422, false]);
});

test('a rotated key is known at once', async () => {
  const email = newEmail();
  assert.equal((await signInWith('Acme', email)).status, 303);
  await acme.rotateKey();
  assert.equal((await signInWith('Acme', email)).status, 303);
});

test('the metadata of a provider is read once an hour', async () => {
  const count = () => partner.requests.filter((path) => path.includes('.well-known')).length;
  server.wait(3_600_000);
  const before = count();
  await Promise.all(Array.from({ length: 10 }, () => start(newBrowser(), 'Partner')));
  assert.equal(count(), before + 1);
  server.wait(3_600_000);
  await start(newBrowser(), 'Partner');
  assert.equal(count(), before + 2);
});

test('without a provider people sign in with their password', async () => {
  const { email } = await newPerson();
  const browser = newBrowser();
  const page = await browser.post(START('Down'), {});
  assert.equal(page.status, 503);
  assert.match(page.text, /Sign-in with Down is not available now; use your password/);
  assert.equal((await browser.signIn(email)).status, 303);
  assert.equal((await browser.post(START('Unknown'), {})).status, 404);
});

test('an account whose address is in no domain of the provider cannot be linked', async () => {
  const email = newEmail('elsewhere.example');
  await createUser(sql, passwords, { email, password: PASSWORD, now: now() });
  assert.equal((await signInWith('Acme', email)).status, 422);
});

test('a provider without domains signs in existing accounts only', async () => {
  const email = newEmail();
  assert.deepEqual([(await signInWith('Partner', email)).status, (await usersWith(email)).length], [422, 0]);
  const { email: existing } = await newPerson();
  const page = await signInWith('Partner', existing);
  assert.match(hiddenIn(page, '/sign-in')['identity'] ?? '', /./);
});

test('of concurrent callbacks of one new person, all sign in to one account', async () => {
  const email = newEmail();
  const browsers = Array.from({ length: 10 }, (_, at) => newBrowser(at % 2 === 0 ? server.origin : second));
  const pages = await Promise.all(browsers.map((browser) => signInWith('Acme', email, { browser })));
  assert.deepEqual(new Set(pages.map(({ status }) => status)), new Set([303]));
  assert.deepEqual([(await usersWith(email)).length, (await identitiesOf(email)).length], [1, 1]);
});

test('a disabled user cannot sign in with a provider', async () => {
  const { email } = await newLinkedPerson();
  await sql`update users set date_disabled = ${now()} where email = ${email}`;
  const browser = newBrowser();
  assert.deepEqual([(await signInWith('Acme', email, { browser })).status, await isSignedIn(browser)], [422, false]);
});

const unlinkPath = async (email: string): Promise<string> => {
  const [row] = await sql<{ id: number }[]>`
    select e.id from external_identity e join users u on u.id = e.user_id where u.email = ${email}`;
  return `/account/security/providers/${row?.id}/unlink`;
};

test('the download of a person has the linked providers, and the erasure of the account deletes them', async () => {
  const { id, email, browser } = await newLinkedPerson();
  const { text } = await submit(browser, '/account', '/account/export');
  const { linked_providers: linked } = JSON.parse(text) as { linked_providers: { issuer: string; subject: string }[] };
  assert.deepEqual(
    linked.map(({ issuer, subject }) => [issuer, subject]),
    [[acme.issuer, claimsOf(email).sub]],
  );
  assert.equal((await submit(browser, '/account/erase', '/account/erase', { current: PASSWORD })).status, 200);
  await mails.next();
  assert.equal((await sql`select from external_identity where user_id = ${id}`).length, 0);
});

test('a person unlinks a provider', async () => {
  const { email, browser } = await newLinkedPerson();
  const path = await unlinkPath(email);
  const foreign = await newLinkedPerson();
  assert.equal((await foreign.browser.post(path, { nonce: 'made up' })).status, 403);
  assert.equal((await submit(browser, '/account/security', path)).status, 303);
  assert.equal((await identitiesOf(email)).length, 0);
  assert.match((await mails.next()).text, /unlinked/);
  assert.deepEqual((await auditOf(email)).at(-1)?.[0], 'external_identity_unlinked');
  assert.equal((await signInWith('Acme', email)).status, 200, 'has to be linked again');
});

test('the only way to sign in cannot be unlinked until the person has chosen a password', async () => {
  const email = newEmail();
  const browser = newBrowser();
  await signInWith('Acme', email, { browser });
  const path = await unlinkPath(email);
  assert.equal((await submit(browser, '/account/security', path)).status, 422);
  assert.equal((await identitiesOf(email)).length, 1);
  await browser.post('/forgot-password', { email });
  const link = /\/reset-password\?token=(\S+)/.exec((await mails.next()).text)?.[1] ?? '';
  const own = newBrowser();
  assert.equal((await own.post('/reset-password', { token: link, password: PASSWORD })).status, 303);
  assert.equal((await submit(own, '/account/security', path)).status, 303);
});

const call = createCaller(server.origin, ISSUER);
const { alpha, foreign } = server;
const platformToken = async (): Promise<string> => {
  const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  return String(granted.body['access_token']);
};
const identityOf = (email: string, issuer = acme.issuer) => ({ issuer, subject: claimsOf(email).sub });
const add = async (store: number, email: string, role = 'owner', identity: object = identityOf(email)) =>
  call('POST', `/stores/${store}/members`, { token: await platformToken(), body: { identity, role } });
const end = async (store: number, identity: { issuer: string; subject: string }) => {
  const query = new URLSearchParams(identity).toString();
  return (await call('DELETE', `/stores/${store}/members/by_identity?${query}`, { token: await platformToken() }))
    .status;
};
const awaitedIn = async (store: number) => {
  const reply = await call('GET', `/stores/${store}/awaited_members`, { token: await platformToken() });
  return itemsOf(reply, 'awaited_members').map(({ subject, role }) => [subject, role]);
};
const rolesOf = async (email: string) => {
  const rows = await sql<{ id: number; role: string }[]>`
    select m.store_id as id, m.role from membership m join users u on u.id = m.user_id
    where u.email = ${email} order by m.store_id`;
  return Object.fromEntries(rows.map(({ id, role }) => [id, role]));
};

test('a member who is named by the account at a provider is one from the first sign-in with it', async () => {
  const email = newEmail();
  const made = await add(foreign, email, 'member');
  const { subject } = identityOf(email);
  assert.deepEqual([made.status, made.body['subject'], made.body['role']], [201, subject, 'member']);
  const again = await add(foreign, email);
  assert.deepEqual([again.status, again.body['role']], [200, 'owner']);
  assert.equal((await add(alpha, email, 'member')).status, 201);
  assert.deepEqual(await awaitedIn(foreign), [[subject, 'owner']]);
  // The same subject at another provider is another person.
  const stranger = newBrowser();
  await signInWith('Acme', newEmail(), { browser: stranger });
  assert.ok(await isSignedIn(stranger));
  assert.deepEqual(await awaitedIn(foreign), [[subject, 'owner']]);
  const browser = newBrowser();
  await signInWith('Acme', email, { browser });
  assert.deepEqual(await rolesOf(email), { [foreign]: 'owner', [alpha]: 'member' });
  assert.deepEqual([await awaitedIn(foreign), await awaitedIn(alpha)], [[], []]);
  assert.equal((await browser.open(`/stores/${foreign}/members`, { Accept: 'text/html' })).status, 200);
  const known = await add(foreign, email, 'member');
  assert.deepEqual([known.status, known.body['role'], known.body['email']], [200, 'owner', email]);
  const list = await call('GET', `/stores/${foreign}/changelogs?order=id desc&limit=1`, {
    token: await platformToken(),
  });
  const [entry] = itemsOf(list, 'changelogs');
  assert.deepEqual([entry?.['actor'], entry?.['resource'], entry?.['action']], ['halcyon', 'member', 'created']);
});

test('a person who has linked the account is a member at once', async () => {
  const { id, email } = await newLinkedPerson();
  const made = await add(foreign, email, 'member');
  assert.deepEqual([made.status, made.body['user_id'], made.body['role']], [201, id, 'member']);
  assert.deepEqual(await rolesOf(email), { [foreign]: 'member' });
  assert.deepEqual(await awaitedIn(foreign), []);
});

test('a membership that has ended, or has waited in vain, does not come back with a sign-in', async () => {
  const [one, two] = [newEmail(), newEmail()];
  await add(foreign, one);
  assert.equal(await end(foreign, identityOf(one)), 204);
  assert.equal(await end(foreign, identityOf(one)), 404);
  await signInWith('Acme', one);
  assert.deepEqual(await rolesOf(one), {});
  await add(foreign, two, 'member');
  await signInWith('Acme', two);
  assert.deepEqual(await rolesOf(two), { [foreign]: 'member' });
  assert.equal(await end(alpha, identityOf(two)), 404);
  assert.equal(await end(foreign, identityOf(two)), 204);
  await signInWith('Acme', two);
  assert.deepEqual(await rolesOf(two), {});
});

test('the platform ends a membership also after the person has unlinked the account that names it', async () => {
  const { email, browser } = await newLinkedPerson();
  const identity = identityOf(email);
  assert.equal((await add(foreign, email, 'owner')).status, 201);
  assert.equal((await submit(browser, '/account/security', await unlinkPath(email))).status, 303);
  await mails.next();
  assert.equal((await add(foreign, email, 'owner')).status, 200);
  assert.equal(await end(foreign, identity), 204);
  assert.deepEqual(await rolesOf(email), {});
  assert.equal(await end(foreign, identity), 404);
  assert.equal(await end(foreign, { ...identity, subject: '\0' }), 404);
});

test('a sign-in that is refused makes no person a member', async () => {
  const email = newEmail('elsewhere.example');
  await add(foreign, email);
  assert.equal((await signInWith('Acme', email)).status, 422);
  const other = newEmail();
  await add(foreign, other);
  await signInWith('Acme', other, { lie: { hasForeignKey: true } });
  assert.deepEqual(
    (await awaitedIn(foreign)).map(([subject]) => subject),
    [identityOf(email).subject, identityOf(other).subject].toSorted(),
  );
  for (const one of [email, other]) assert.equal(await end(foreign, identityOf(one)), 204);
});

test('of concurrent first sign-ins with one account each ends with the membership', async () => {
  const email = newEmail();
  await add(foreign, email);
  await Promise.all([signInWith('Acme', email), signInWith('Acme', email), signInWith('Acme', email)]);
  assert.deepEqual(await rolesOf(email), { [foreign]: 'owner' });
  assert.equal((await usersWith(email)).length, 1);
});

test('an identity needs a configured issuer and a subject, and only the platform names one', async () => {
  for (const identity of [
    { issuer: 'https://unknown.example', subject: '1' },
    { issuer: acme.issuer },
    { issuer: acme.issuer, subject: '' },
    { issuer: acme.issuer, subject: 'x'.repeat(256) },
    { issuer: acme.issuer, subject: '1', email: 'x@example.com' },
    {},
  ]) {
    const refused = await add(foreign, '', 'owner', identity);
    assert.deepEqual([refused.status, faultsOf(refused)], [400, ['identity invalid_value']]);
  }
  const unknown = await add(foreign, '', 'owner', { issuer: 'https://unknown.example', subject: '1' });
  const [fault] = itemsOf(unknown, 'errors');
  for (const issuer of [real.issuer, acme.issuer, partner.issuer])
    assert.ok(String(fault?.['message']).includes(issuer));
  const token = await platformToken();
  const body = { identity: identityOf('x'), email: 'x@example.com', role: 'owner' };
  assert.equal((await call('POST', `/stores/${foreign}/members`, { token, body })).status, 400);
  assert.equal((await call('DELETE', `/stores/${foreign}/members/by_identity`, { token })).status, 400);
  assert.equal((await call('DELETE', `/stores/1/members/by_identity?issuer=x&subject=y`, { token })).status, 404);
  const store = String((await server.redeem(await server.newCode())).body['access_token']);
  for (const [method, path] of [
    ['POST', `/stores/${alpha}/members`],
    ['DELETE', `/stores/${alpha}/members/by_identity?issuer=x&subject=y`],
    ['GET', `/stores/${alpha}/awaited_members`],
  ] as const)
    assert.equal((await call(method, path, { token: store, ...(method === 'POST' && { body }) })).status, 403, path);
});
