/** Step-up: before a sensitive change a person proves again who they are, unless they did so within ten minutes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createAuthenticator } from '../setup/authenticator.ts';
import { createFiller, filled, HTML } from '../setup/form-filler.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER, PASSWORD, readForm, startAuthorizationServer, type Page } from './oauth-server.ts';

const people = await startWithPeople();
const { sql, alpha, ada, bobId, call, wait } = people;
const browser = createBrowser(people.origin, { confirms: false });
const owner = createFiller(people.origin, browser);
const MINUTE_MS = 60_000;
const STORE = `/stores/${alpha}`;

const unescape = (text: string): string => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&');

type Asked = { action: string; form: URLSearchParams; text: string };
/** Returns the form of the page that asks the person to confirm. */
function asked(status: number, text: string): Asked {
  assert.equal(status, 403, text);
  assert.match(text, /Confirm that it is you/);
  const forms = [...text.matchAll(/<form method="post" action="([^"]*)">([^]*?)<\/form>/g)];
  const [, action = '', inside = ''] = forms.find(([form]) => form.includes('verification_')) ?? [];
  const hidden = [...inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)];
  const form = new URLSearchParams(hidden.map(([, name = '', value = '']) => [name, unescape(value)]));
  return { action: unescape(action), form, text };
}
const askedBy = async (response: Response): Promise<Asked> => asked(response.status, await response.text());

const withPassword = ({ action, form }: Asked, password = PASSWORD) =>
  owner.send(action, filled(form, { verification_password: password }));

/** A new token of the platform: the clock passes the lifetime of earlier ones. */
async function newToken(): Promise<string> {
  const { body } = await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform });
  return String(body['access_token']);
}

/** Creates a webhook and returns its path. */
async function newWebhook(): Promise<string> {
  const token = await newToken();
  const body = { name: 'Orders', format: 'json', url: 'https://example.com/hook', encryption_key: 'k'.repeat(32) };
  const { headers, status } = await call('POST', `${STORE}/webhooks`, { token, body });
  assert.equal(status, 201);
  return new URL(headers.get('location') ?? '').pathname;
}
const webhooks = async (): Promise<number> => (await sql`select from webhook where store_id = ${alpha}`).length;
const keys = async (): Promise<unknown> => sql`select encryption_key, next_encryption_key from webhook order by id`;

const APP = { name: 'Mine', redirect_uris: 'https://mine.example.com/cb' };

/** Creates an app of Ada and returns the path of its page. */
async function newApp(): Promise<string> {
  const { client_id: id } = await createClient(sql, {
    name: APP.name,
    redirectUris: [APP.redirect_uris],
    trusted: false,
    owner: { userId: people.adaId, clientsPerUser: 100 },
    now: people.now(),
  });
  return `/account/clients/${id}`;
}
async function createApp(): Promise<Page> {
  const blank = await browser.open('/account/clients/new');
  return browser.post('/account/clients', { ...formAt(blank, '/account/clients'), ...APP, is_public: '0' });
}
const apps = async (): Promise<number> => (await sql`select from client where date_deleted is null`).length;
const formAt = ({ text }: Page, action: string): Record<string, string> => {
  const at = text.indexOf(`action="${action}"`);
  assert.ok(at > 0, action);
  const inside = text.slice(at, text.indexOf('</form>', at));
  const hidden = [...inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)];
  return Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, unescape(value)]));
};

/** Each sensitive change: how a person sends it, and how many things of its kind there are. */
const changes: [what: string, send: () => Promise<Response | Page>, count: () => Promise<unknown>][] = [
  ['deleting a webhook', async () => sendForm(await newWebhook(), 'DELETE', {}), webhooks],
  [
    'changing the key of a webhook',
    async () => sendForm(await newWebhook(), 'PATCH', { encryption_key: 'x'.repeat(32) }),
    keys,
  ],
  ['rotating the key of a webhook', async () => rotate(await newWebhook()), keys],
  ['leaving a store', () => leave(), async () => sql`select from membership where store_id = ${people.beta}`],
  ['inviting a person', () => invite(), async () => (await sql`select from invitation`).length],
  ['creating an app', () => createApp(), apps],
  ['deleting an app', async () => post(await newApp(), 'delete'), apps],
  [
    'rotating the secret of an app',
    async () => post(await newApp(), 'secret'),
    async () => (await sql`select from client_secret`).length,
  ],
  ['connecting an app', () => connect(), async () => (await sql`select from access_grant`).length],
  ['setting up an authenticator app', () => setUpApp(), async () => (await sql`select from authenticator_app`).length],
];

async function sendForm(path: string, method: string, fields: Record<string, string>): Promise<Response> {
  return owner.send(path, filled(await owner.formFor(path, method), fields));
}
async function rotate(webhook: string): Promise<Response> {
  const text = await (await owner.show(webhook)).text();
  const fields = formAt({ text } as Page, `${webhook}/rotate_key`);
  return owner.send(`${webhook}/rotate_key`, new URLSearchParams({ ...fields, encryption_key: 'y'.repeat(32) }));
}
async function invite(): Promise<Response> {
  const text = await (await owner.show(`${STORE}/members`)).text();
  const fields = formAt({ text } as Page, `${STORE}/invitations`);
  return owner.send(`${STORE}/invitations`, new URLSearchParams({ ...fields, role: 'member' }));
}
const joinBeta = async () =>
  call('POST', `/stores/${people.beta}/members`, {
    token: await newToken(),
    body: { user: people.adaId, role: 'member' },
  });
async function leave(): Promise<Response> {
  await joinBeta();
  return sendForm(`/stores/${people.beta}/members/${people.adaId}`, 'DELETE', {});
}
async function post(app: string, what: 'delete' | 'secret'): Promise<Page> {
  const page = await browser.open(what === 'delete' ? `${app}/delete` : app);
  return browser.post(`${app}/${what}`, formAt(page, `${app}/${what}`));
}
async function connect(): Promise<Page> {
  const asking = new URLSearchParams(people.asking()).toString();
  const { action, nonce, stores } = readForm(await browser.open(`/authorize?${asking}`));
  return browser.post(action, { nonce, decision: 'allow', store: String(stores[0]?.id) });
}
async function setUpApp(): Promise<Page> {
  const page = await browser.open('/account/security/app');
  return browser.post('/account/security/app', { ...formAt(page, '/account/security/app'), code: '123456' });
}
const textOf = (sent: Response | Page): Promise<string> | string =>
  typeof sent.text === 'string' ? sent.text : sent.text();

for (const [what, send, count] of changes) {
  test(`${what} needs a person who was verified within ten minutes`, async () => {
    await browser.signIn(ada);
    wait(10 * MINUTE_MS);
    const sent = await send();
    const before = await count();
    const page = asked(sent.status, await textOf(sent));
    const refused = await withPassword(page, 'wrong password');
    assert.equal(refused.status, 422);
    assert.match(await refused.text(), /The password is wrong/);
    assert.deepEqual(await count(), before, 'nothing has changed');
    const done = await withPassword(page);
    assert.ok(done.status < 400 || what.startsWith('setting up'), `${done.status} ${await done.text()}`);
    if (!what.startsWith('setting up')) assert.notDeepEqual(await count(), before, 'the change was made');
    // Verified now: no change asks again.
    assert.notEqual((await connect()).status, 403);
  });
}

test('a change without a secret is made without asking', async () => {
  const webhook = await newWebhook();
  await browser.signIn(ada);
  wait(10 * MINUTE_MS);
  const response = await sendForm(webhook, 'PATCH', { name: 'Other' });
  assert.equal(response.status, 303);
});

test('what was entered is kept, also in lines, and a repeated field', async () => {
  await browser.signIn(ada);
  wait(10 * MINUTE_MS);
  const webhook = await newWebhook();
  const fields = { encryption_key: '"<&\'>'.repeat(8), name: 'Two\r\nlines & "quotes"' };
  const asking = await askedBy(await sendForm(webhook, 'PATCH', fields));
  assert.doesNotMatch(asking.text, /&quot;&lt;/, 'the page does not have it');
  assert.equal((await withPassword(asking)).status, 303);
  const page = await (await owner.show(webhook)).text();
  assert.match(page, /<code>(?:&quot;&lt;&amp;&#39;&gt;){8}<\/code>/);
  assert.match(page, /Two\s+lines &amp; &quot;quotes&quot;/);
});

test('no page sends back what was typed as a secret, and the carried form opens for its person, path and time only', async () => {
  const typed = 'a battery, stapled';
  const guest = createBrowser(people.origin, { confirms: false });
  const other = createBrowser(people.origin, { confirms: false });
  for (const one of [guest, other]) await one.signIn(people.bob);
  await sql`insert into authenticator_app values (${bobId}, ${Buffer.alloc(64)}, 0, '2020-01-01')`;
  wait(10 * MINUTE_MS);
  const send = async (path: string, fields: Record<string, string>) =>
    guest.post(path, { ...formAt(await guest.open(path), path), ...fields });
  for (const [path, fields] of [
    ['/account/erase', { current: PASSWORD }],
    ['/account/password', { current: PASSWORD, password: typed }],
  ] as const) {
    const sent = await send(path, fields);
    const { form } = asked(sent.status, sent.text);
    for (const text of [PASSWORD, typed, encodeURIComponent(PASSWORD)])
      assert.ok(!sent.text.includes(text) && !form.toString().includes(text), path);
    const carried = Object.fromEntries(form);
    const alone = await guest.post(path, carried);
    assert.equal(alone.status, 422, 'without a proof');
    await sql`update session set date_verified = ${people.now()} where user_id = ${bobId}`;
    assert.equal((await guest.post(path, carried)).status, 422, 'also if the person was verified meanwhile');
    const otherPath = path === '/account/erase' ? '/account/password' : '/account/erase';
    assert.equal((await guest.post(otherPath, carried)).status, 403, 'at another path');
    assert.equal((await other.post(path, carried)).status, 403, 'in another session');
    wait(10 * MINUTE_MS);
    assert.equal((await guest.post(path, carried)).status, 403, 'after ten minutes');
  }
  await sql`delete from authenticator_app where user_id = ${bobId}`;
  assert.equal((await sql`select from users where id = ${bobId}`).length, 1);
});

test('a person with a second factor is asked for it, and not for the password', async () => {
  const guest = createBrowser(people.origin, { confirms: false });
  await guest.signIn(people.bob);
  const page = await guest.open('/account/security');
  const authenticator = createAuthenticator(ISSUER);
  const options = (shown: Page, name: string) => unescape(new RegExp(`${name}="([^"]*)"`).exec(shown.text)?.[1] ?? '');
  const [, nonce = ''] = /passkeys"[^>]*>\s*<input type="hidden" name="nonce" value="([^"]*)"/.exec(page.text) ?? [];
  const registration = authenticator.create(options(page, 'data-passkey-create'));
  assert.equal((await guest.post('/account/security/passkeys', { nonce, registration, name: 'Key' })).status, 200);
  wait(10 * MINUTE_MS);
  const again = await guest.open('/account/security');
  const action = '/account/security/recovery-codes';
  const renew = formAt(again, action);
  const sent = await guest.post(action, renew);
  const { form, text } = asked(sent.status, sent.text);
  assert.doesNotMatch(text, /type="password"/);
  const fields = Object.fromEntries(form);
  const wrong = await guest.post(action, { ...fields, verification_password: PASSWORD });
  assert.equal(wrong.status, 422);
  const response = authenticator.get(options(wrong, 'data-passkey-get'));
  const done = await guest.post(action, { ...fields, verification_passkey: response });
  assert.deepEqual([done.status, /These are your recovery codes/.test(done.text)], [200, true]);
  await sql`delete from passkey where user_id = ${bobId}`;
});

test('the confirmation needs a form of this session', async () => {
  await browser.signIn(ada);
  wait(10 * MINUTE_MS);
  const webhook = await newWebhook();
  const page = await askedBy(await sendForm(webhook, 'DELETE', {}));
  page.form.set('verification_form', 'x');
  assert.equal((await withPassword(page)).status, 403);
  assert.equal((await call('GET', webhook, { token: await newToken() })).status, 200);
});

test('programs are not asked', async () => {
  wait(60 * MINUTE_MS);
  const webhook = await newWebhook();
  assert.equal((await call('DELETE', webhook, { token: await newToken() })).status, 204);
});

const setFactor = (userId: number) =>
  sql`insert into authenticator_app values (${userId}, ${Buffer.alloc(64)}, 0, '2020-01-01')`;
const AT_SECURITY = '/account/security?required_by=store';

test('only an owner with a second factor requires one of the members', async () => {
  await browser.signIn(ada);
  await people.browser.signIn(ada);
  const app = await people.tokenOf({ scope: 'store_full_access' });
  const byApp = await call('PATCH', STORE, { token: app, body: { second_factor: 'required' } });
  assert.equal(byApp.status, 403, 'an app cannot decide how people sign in');
  const require = () => sendForm(STORE, 'PATCH', { second_factor: 'required' });
  const refused = await require();
  assert.equal(refused.status, 409);
  assert.match(await refused.text(), /Set up a second factor for your own account first/);
  await setFactor(people.adaId);
  assert.equal((await require()).status, 303);
  assert.equal((await sendForm(STORE, 'PATCH', { second_factor: 'optional' })).status, 303);
  await sql`delete from authenticator_app`;
});

test('what a store requires closes that store alone', async () => {
  await joinBeta();
  await sql`update store set second_factor = 'required' where id = ${alpha}`;
  await browser.signIn(ada);
  for (const path of [STORE, `${STORE}/webhooks`, `${STORE}/members`, `${STORE}/members/${bobId}`]) {
    const response = await owner.show(path);
    assert.deepEqual([response.status, response.headers.get('location')], [303, AT_SECURITY], path);
  }
  assert.match((await browser.open(AT_SECURITY)).text, /The store requires a second factor/);
  for (const path of ['/account', '/account/clients', '/account/erase', `/stores/${people.beta}`])
    assert.equal((await owner.show(path)).status, 200, path);
  const list = await (await owner.show('/stores')).text();
  assert.match(list, /Set up a second factor<\/a>\s+to open, or leave:\s+<a [^>]*>Alpha<\/a>/);
  assert.match(await (await owner.show(`${STORE}/members/${people.adaId}`)).text(), /name="_method" value="DELETE"/);
  const live = await fetch(`${people.origin}${STORE}/live`, {
    headers: { ...HTML, Cookie: browser.cookie() ?? '' },
    redirect: 'manual',
  });
  assert.notEqual(live.status, 200);
  await live.body?.cancel();
  const consent = async (scope: string) =>
    browser.open(`/authorize?${new URLSearchParams(people.asking({ scope })).toString()}`);
  assert.deepEqual(
    readForm(await consent('store_full_access')).stores.map(({ id }) => id),
    [people.beta],
  );
  assert.equal((await consent('user_full_access')).location, AT_SECURITY);
  await setFactor(people.adaId);
  assert.equal((await owner.show(STORE)).status, 200);
  assert.equal((await consent('user_full_access')).status, 200);
  await sql`delete from authenticator_app`;
  await sql`update store set second_factor = 'optional'`;
});

test('a form that asks for the password also asks for the second factor, if there is one', async () => {
  const guest = createBrowser(people.origin, { confirms: false });
  await guest.signIn(people.bob);
  wait(10 * MINUTE_MS);
  const password = 'a battery, stapled';
  const send = async () => {
    const fields = formAt(await guest.open('/account/password'), '/account/password');
    return guest.post('/account/password', { ...fields, current: PASSWORD, password });
  };
  await sql`insert into authenticator_app values (${bobId}, ${Buffer.alloc(64)}, 0, '2020-01-01')`;
  asked((await send()).status, (await send()).text);
  await sql`delete from authenticator_app where user_id = ${bobId}`;
  assert.equal((await send()).status, 303, 'the password is the only factor, and was entered');
  const fields = formAt(await guest.open('/account/password'), '/account/password');
  assert.equal(
    (await guest.post('/account/password', { ...fields, current: password, password: PASSWORD })).status,
    303,
  );
});

test('the page of a webhook shows its key only to a person who was verified within ten minutes', async () => {
  const webhook = await newWebhook();
  await browser.signIn(ada);
  const key = /<code>k{32}<\/code>/;
  const shown = await (await owner.show(webhook)).text();
  wait(10 * MINUTE_MS);
  const withheld = await (await owner.show(webhook)).text();
  assert.deepEqual([key.test(shown), key.test(withheld)], [true, false]);
  const [, href = ''] = /<a\s+href="([^"]*)"\s*>\s*Confirm that it is you to show it/.exec(withheld) ?? [];
  const page = await browser.open(unescape(href));
  const confirmed = await withPassword(asked(page.status, page.text));
  assert.deepEqual([confirmed.status, confirmed.headers.get('location')], [303, webhook]);
  assert.match(await (await owner.show(webhook)).text(), key);
});

test('values of headers and the query of the url are shown, and the url changed, by a person who was verified within ten minutes', async () => {
  const token = await newToken();
  const url = 'https://example.com/hook?token=canary-in-the-query';
  const body = {
    name: 'Orders',
    format: 'json',
    url,
    encryption_key: 'k'.repeat(32),
    headers: { 'X-Api-Key': 'canary-in-a-header' },
  };
  const { headers } = await call('POST', `${STORE}/webhooks`, { token, body });
  const webhook = new URL(headers.get('location') ?? '').pathname;
  const readUrl = async () => (await call('GET', webhook, { token: await newToken() })).body['url'];
  await browser.signIn(ada);
  const shown = await (await owner.show(webhook)).text();
  assert.ok(shown.includes('canary-in-the-query') && shown.includes('canary-in-a-header'));
  wait(10 * MINUTE_MS);
  for (const path of [webhook, `${STORE}/webhooks`])
    assert.doesNotMatch(await (await owner.show(path)).text(), /canary/, path);
  const withheld = await (await owner.show(webhook)).text();
  assert.match(withheld, /token=\*\*\*/);
  assert.match(withheld, /Confirm that it is you to show it/);
  const before =
    await sql`select url, request_secrets from webhook where url like 'https://example.com/hook%' order by id desc limit 1`;
  const renamed = await sendForm(webhook, 'PATCH', { name: 'Other' });
  assert.equal(renamed.status, 303, 'a form with masked values keeps the stored ones');
  const after =
    await sql`select url, request_secrets from webhook where url like 'https://example.com/hook%' order by id desc limit 1`;
  assert.deepEqual(after, before);
  const masked = await askedBy(await sendForm(webhook, 'PATCH', { url: 'https://example.com/other?token=***' }));
  assert.equal((await withPassword(masked)).status, 400, 'a masked value is not stored');
  wait(10 * MINUTE_MS);
  const moved = await askedBy(await sendForm(webhook, 'PATCH', { url: 'https://example.com/other' }));
  assert.equal(JSON.stringify(await sql`select url from webhook where url like '%/other'`), '[]');
  assert.equal((await withPassword(moved)).status, 303);
  assert.equal(await readUrl(), 'https://example.com/other');
});

test('the operator may require a second factor of everyone', async () => {
  const strict = await startAuthorizationServer({ REQUIRE_SECOND_FACTOR: '1' });
  for (const path of ['/account', '/account/clients', '/account/password'])
    assert.equal((await strict.browser.open(path)).location, '/account/security', path);
  assert.equal((await strict.browser.open('/account/security')).status, 200);
});
