/** The public page of an app and its install link: for its developer, another user, a visitor and an attacker. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { faultsOf } from '../setup/caller.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER } from './oauth-server.ts';
import { makeApp, newApp, REGISTERED, saveApp } from './page-forms.ts';

const people = await startWithPeople();
const { browser, call, sql, origin, platformToken: platform } = people;
const bob = createBrowser(origin);
await bob.signIn(people.bob);
const visitor = createBrowser(origin);

const INSTALL = 'https://mine.example.com/install?from=halcyon';
const LINKS = {
  client_uri: 'https://mine.example.com/',
  policy_uri: 'https://mine.example.com/privacy',
  tos_uri: 'https://mine.example.com/terms',
};
const LISTED = { ...LINKS, initiate_login_uri: INSTALL, is_listed: '1' };

async function newListing(fields: Record<string, string> = {}) {
  const { clientId } = await newApp(browser, fields);
  return { clientId, page: `/apps/${clientId}`, install: `/apps/${clientId}/install` };
}
const verify = (clientId: string) => sql`update client set is_verified = true where client_id = ${clientId}`;
const isVerified = async (clientId: string): Promise<unknown> =>
  (await sql`select is_verified from client where client_id = ${clientId}`)[0]?.['is_verified'];

test('an app that is not listed has a page for its developer only; all others get the 404 of an unknown app', async () => {
  const { page } = await newListing(LINKS);
  const preview = await browser.open(page);
  assert.deepEqual([preview.status, preview.headers.get('x-robots-tag')], [200, 'noindex']);
  assert.match(preview.text, /Only you see this page/);
  const others = [await visitor.open(page), await bob.open(page), await visitor.open('/apps/unknown')];
  assert.deepEqual(
    others.map(({ status }) => status),
    [404, 404, 404],
  );
  assert.equal(new Set(others.map(({ text }) => text)).size, 1);
  assert.equal((await visitor.open('/apps/%00')).status, 404);
});

test('a listed app has a page for everyone, with its description, links, scopes and events', async () => {
  const description = 'Writes to your customers.';
  const { clientId, page, install } = await newListing({ ...LISTED, description, company: 'Example GmbH' });
  const { status, text } = await visitor.open(page);
  assert.equal(status, 200);
  for (const shown of ['My app', description, 'Example GmbH', ...Object.values(LINKS)]) assert.ok(text.includes(shown));
  assert.ok(text.includes(`href="${install}"`));
  assert.match(text, /See and change everything in one store/);
  assert.match(text, /class="badge caution">Unverified</);
  assert.doesNotMatch(text, /app\/installed|Only you see|>Verified</);
  await verify(clientId);
  assert.match((await visitor.open(page)).text, />Verified</);
  await saveApp(browser, clientId, { ...LISTED, webhook_url: 'https://mine.example.com/events' });
  assert.match((await visitor.open(page)).text, /app\/installed/);
});

test('search engines keep the page of a listed and verified app only', async () => {
  const { clientId, page } = await newListing(LISTED);
  const robots = async () => (await visitor.open(page)).headers.get('x-robots-tag');
  assert.equal(await robots(), 'noindex');
  await verify(clientId);
  assert.equal(await robots(), null);
});

test('texts of a developer are no markup, and no picture or script comes from elsewhere', async () => {
  const description = '<img src=https://evil.example/x onerror=alert(1)> "quoted" &amp;';
  const { page } = await newListing({ ...LISTED, name: 'A <b>bold</b> name', company: '<script>', description });
  const { text, headers } = await visitor.open(page);
  assert.doesNotMatch(text, /<b>bold|<script|<img src=https/);
  assert.match(text, /<bdi>A &lt;b>bold&lt;\/b> name<\/bdi>|<bdi>A &lt;b&gt;bold/);
  const csp = headers.get('content-security-policy') ?? '';
  assert.match(csp, /default-src 'none'.*img-src 'self'.*frame-ancestors 'none'/);
  assert.doesNotMatch(csp, /script-src/);
});

const REFUSED = [
  'javascript:alert(1)',
  'data:text/html,x',
  'com.example.app:/install',
  'http://mine.example.com/',
  'https:mine.example.com',
  'https://user@mine.example.com/',
  'https://mine.example.com/#part',
  'https://mine.example.com\\@evil.example/',
  '//mine.example.com/',
  'https://',
];
for (const uri of REFUSED) {
  test(`no address of an app: ${uri}`, async () => {
    const names = ['client_uri', 'policy_uri', 'tos_uri', 'initiate_login_uri'];
    const fields = Object.fromEntries(names.map((name) => [name, uri]));
    const page = await makeApp(browser, fields);
    assert.equal(page.status, 422);
    for (const name of names) assert.ok(page.text.includes(`id="${name}-fault"`), name);
    const body = { name: 'App', redirect_uris: [REGISTERED], ...fields };
    const reply = await call('POST', '/clients', { token: platform, body });
    assert.equal(reply.status, 400);
    assert.deepEqual(
      faultsOf(reply),
      names.toSorted().map((name) => `${name} invalid_value`),
    );
  });
}

test('an install address may be on loopback, and a link may not; neither may contain what the server adds', async () => {
  const body = { name: 'App', redirect_uris: [REGISTERED] };
  const create = (more: object) => call('POST', '/clients', { token: platform, body: { ...body, ...more } });
  assert.equal((await create({ initiate_login_uri: 'http://127.0.0.1:3000/install' })).status, 201);
  assert.deepEqual(faultsOf(await create({ client_uri: 'http://127.0.0.1:3000/' })), ['client_uri invalid_value']);
  for (const name of ['iss', 'store_id']) {
    const reply = await create({ initiate_login_uri: `https://mine.example.com/?${name}=1` });
    assert.deepEqual(faultsOf(reply), ['initiate_login_uri invalid_value']);
  }
});

test('the install link of a verified app redirects to its address with the issuer and the store, and nothing else', async () => {
  const { clientId, install } = await newListing(LISTED);
  await verify(clientId);
  const iss = encodeURIComponent(ISSUER);
  const plain = await visitor.open(install);
  assert.deepEqual([plain.status, plain.location], [303, `${INSTALL}&iss=${iss}`]);
  assert.equal(plain.headers.get('referrer-policy'), 'no-referrer');
  const evil = '&iss=https://evil.example&target_link_uri=https://evil.example&redirect_uri=https://evil.example';
  const more = await visitor.open(`${install}?store_id=${people.alpha}${evil}`);
  assert.equal(more.location, `${INSTALL}&iss=${iss}&store_id=${people.alpha}`);
});

test('the install link does not show an app who follows it: a member of the store, another user or a visitor', async () => {
  const { clientId, install } = await newListing(LISTED);
  await verify(clientId);
  const path = `${install}?store_id=${people.alpha}`;
  const answers = [await browser.open(path), await bob.open(path), await visitor.open(path)];
  assert.equal(new Set(answers.map(({ location }) => location)).size, 1);
  const unknown = await browser.open(`${install}?store_id=999999999`);
  assert.match(unknown.location ?? '', /&store_id=999999999$/);
});

test('the install link of an unverified app does not redirect, but shows where it leads', async () => {
  const { install } = await newListing(LISTED);
  for (const who of [browser, visitor]) {
    const page = await who.open(`${install}?store_id=${people.alpha}`);
    assert.deepEqual([page.status, page.location, page.headers.get('x-robots-tag')], [200, null, 'noindex']);
    assert.match(page.text, /<strong>mine\.example\.com<\/strong>/);
    const href = `${INSTALL}&iss=${encodeURIComponent(ISSUER)}&store_id=${people.alpha}`;
    assert.ok(page.text.includes(`href="${href.replaceAll('&', '&amp;')}"`));
  }
});

test('a text that is no store id, an app without an install address and an unknown app are not redirected', async () => {
  const { clientId, install } = await newListing(LISTED);
  await verify(clientId);
  for (const text of ['x', '-1', '1e3', '%0d%0aLocation:x']) {
    const { status, location } = await visitor.open(`${install}?store_id=${text}`);
    assert.deepEqual([status, location], [400, null], text);
  }
  const without = await newListing(LINKS);
  const page = await visitor.open(without.install);
  assert.deepEqual([page.status, page.location], [404, null]);
  assert.match(page.text, /no install link/);
  assert.doesNotMatch(page.text, /My app/);
  assert.equal((await visitor.open('/apps/unknown/install')).status, 404);
});

test('an app is unverified again when its developer changes an address', async () => {
  const { clientId } = await newListing(LISTED);
  for (const name of [...Object.keys(LINKS), 'initiate_login_uri']) {
    await saveApp(browser, clientId, LISTED);
    await verify(clientId);
    await saveApp(browser, clientId, { ...LISTED, [name]: `https://other.example/${name}` });
    assert.equal(await isVerified(clientId), false, name);
  }
  await saveApp(browser, clientId, LISTED);
  await verify(clientId);
  await saveApp(browser, clientId, { ...LISTED, description: 'Another' });
  assert.equal(await isVerified(clientId), true);
});

test('the API has the addresses of an app, and links to its page if it is listed', async () => {
  const body = { name: 'App', redirect_uris: [REGISTERED], ...LINKS, initiate_login_uri: INSTALL };
  const hidden = await call('POST', '/clients', { token: platform, body });
  assert.deepEqual([hidden.body['is_listed'], hidden.body._links['svc:listing']], [false, undefined]);
  const { body: made } = await call('POST', '/clients', { token: platform, body: { ...body, is_listed: true } });
  const { client_uri, policy_uri, tos_uri, initiate_login_uri: install } = made;
  assert.deepEqual({ client_uri, policy_uri, tos_uri, install }, { ...LINKS, install: INSTALL });
  const href = made._links['svc:listing']?.href ?? '';
  assert.equal(href, `${ISSUER}/apps/${String(made['client_id'])}`);
  assert.equal((await visitor.open(new URL(href).pathname)).status, 200);
  const { body: list } = await call('GET', '/clients?is_listed=1&limit=100', { token: platform });
  assert.ok((list._embedded?.['svc:clients'] ?? []).every(({ is_listed: isListed }) => isListed === true));
});

test('a registered client has the addresses that it sends, without links that are not https, and replaces them', async () => {
  const invitation = await createRegistrationToken(sql, { days: 7, now: people.now() });
  const send = async (method: string, path: string, token: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
    const response = await fetch(origin + path, { method, headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const metadata = { redirect_uris: [REGISTERED], ...LINKS, tos_uri: 'http://x.example/', initiate_login_uri: INSTALL };
  const made = await send('POST', '/register', invitation, metadata);
  assert.equal(made.status, 201);
  const { client_uri, policy_uri, tos_uri, initiate_login_uri: install, client_id: clientId } = made.body;
  assert.deepEqual(
    [client_uri, policy_uri, tos_uri, install],
    [LINKS.client_uri, LINKS.policy_uri, undefined, INSTALL],
  );
  const token = String(made.body['registration_access_token']);
  const path = `/register/${String(clientId)}`;
  const changed = await send('PUT', path, token, { client_id: clientId, redirect_uris: [REGISTERED] });
  assert.deepEqual(
    [changed.status, 'client_uri' in changed.body, 'initiate_login_uri' in changed.body],
    [200, false, false],
  );
  const refused = await send('POST', '/register', invitation, {
    ...metadata,
    initiate_login_uri: 'javascript:alert(1)',
  });
  assert.deepEqual([refused.status, refused.body['error']], [400, 'invalid_client_metadata']);
});

test('the consent page links to the page of an app that is listed', async () => {
  for (const listed of [true, false]) {
    const { clientId, page } = await newListing(listed ? LISTED : LINKS);
    const asked = people.asking({ client_id: clientId, redirect_uri: REGISTERED });
    const { text } = await browser.open(`/authorize?${new URLSearchParams(asked).toString()}`);
    assert.equal(text.includes(`href="${page}"`), listed);
  }
});

test('the audit has each change of the page of an app', async () => {
  const { clientId } = await newListing();
  await saveApp(browser, clientId, LISTED);
  const [entry] = await sql<{ detail: { changed: string[] } }[]>`
    select detail from audit where action = 'client_changed' order by id desc limit 1`;
  const expected = ['client_uri', 'policy_uri', 'tos_uri', 'initiate_login_uri', 'is_listed'];
  assert.deepEqual(entry?.detail.changed.filter((name) => expected.includes(name)).toSorted(), expected.toSorted());
});
