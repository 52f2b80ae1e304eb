/** The pages of a person's own apps: for the owner, another person and an attacker. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createBrowser, REDIRECT, startAuthorizationServer } from './oauth-server.ts';
import { hiddenIn, makeApp, newApp, REGISTERED, saveApp, submit } from './page-forms.ts';

const server = await startAuthorizationServer();
const { browser, sql, adaId } = server;
const bob = createBrowser(server.origin);
await bob.signIn(server.bob);

async function rowOf(clientId: string) {
  const [row] = await sql`
    select name, redirect_uris, owner, is_verified, is_public, rotates_refresh_tokens, requires_pkce, scopes from client
    where client_id = ${clientId}`;
  return row;
}

test('a new app has its creator as owner, is unverified and not trusted, whatever the form contains', async () => {
  const { clientId } = await newApp(browser, { owner: '1', is_verified: '1', trusted: '1', is_legacy: '1' });
  const [row] = await sql`
    select owner, is_verified, trusted, is_legacy, redirect_uris from client where client_id = ${clientId}`;
  assert.deepEqual(row, {
    owner: adaId,
    is_verified: false,
    trusted: false,
    is_legacy: false,
    redirect_uris: [REGISTERED],
  });
});

test('a public app has no secret, and its refresh tokens rotate', async () => {
  const { clientId, secret } = await newApp(browser, { is_public: '1' });
  assert.equal(secret, '');
  const { is_public: isPublic, rotates_refresh_tokens: rotates } = (await rowOf(clientId)) ?? {};
  assert.deepEqual([isPublic, rotates], [true, true]);
  const secrets =
    await sql`select from client_secret s join client c on c.id = s.client where c.client_id = ${clientId}`;
  assert.equal(secrets.length, 0);
});

test("the list shows the user's own apps and no others", async () => {
  await newApp(browser, { name: 'Listed' });
  assert.match((await browser.open('/account/clients')).text, /Listed/);
  assert.match((await browser.open('/account')).text, /Listed/);
  assert.doesNotMatch((await bob.open('/account/clients')).text, /Listed/);
});

test('an app of another person, of the operator and an unknown one are the same 404', async () => {
  const { path } = await newApp(browser);
  const operators = `/account/clients/${server.client.client_id}`;
  const pages = [];
  for (const at of [path, operators, '/account/clients/unknown', '/account/clients/%00'])
    pages.push(await bob.open(at), await bob.open(`${at}/delete`));
  for (const { status } of pages) assert.equal(status, 404);
  assert.equal(new Set(pages.map(({ text }) => text)).size, 1);
});

test("a form of another person's app changes nothing, also with the sender's own nonce", async () => {
  const mine = await newApp(bob);
  const { clientId, path } = await newApp(browser);
  const page = await bob.open(mine.path);
  for (const end of ['', '/secret', '/delete']) {
    const from = end === '/delete' ? await bob.open(`${mine.path}/delete`) : page;
    const hidden = hiddenIn(from, mine.path + end);
    assert.equal((await bob.post(path + end, { ...hidden, name: 'Stolen' })).status, 403);
  }
  assert.equal((await rowOf(clientId))?.['name'], 'My app');
});

test('a post from another site, or without the nonce, changes nothing', async () => {
  const { clientId, path } = await newApp(browser);
  const hidden = hiddenIn(await browser.open(path), path);
  const fields = { ...hidden, name: 'Forged', redirect_uris: REGISTERED };
  assert.equal((await browser.post(path, fields, { 'Sec-Fetch-Site': 'cross-site' })).status, 403);
  assert.equal((await browser.post(path, { ...fields, nonce: '' })).status, 403);
  assert.equal((await rowOf(clientId))?.['name'], 'My app');
});

test('a rejected form keeps its input, each error at its field', async () => {
  const fields = {
    name: ' ',
    contact: 'unknown',
    redirect_uris: `${REGISTERED}\nhttp://x.example/cb`,
    company: 'Mine & "Co"',
  };
  const { status, text } = await makeApp(browser, fields);
  assert.equal(status, 422);
  assert.match(text, /role="alert">[^<]*\b3 problems/);
  for (const name of ['name', 'contact', 'redirect_uris'])
    assert.match(
      text,
      new RegExp(`id="${name}"[^>]*aria-describedby="${name}-hint ${name}-fault"\\s+aria-invalid="true"`),
    );
  assert.doesNotMatch(text, /company-fault/);
  assert.match(text, /value="Mine &amp; &quot;Co&quot;"/);
  assert.match(text, /Redirect addresses: [^<]*\b2\b[^<]*https:/);
  assert.ok(text.includes(`\n${REGISTERED}\nhttp://x.example/cb</textarea>`));
});

test('a rejected change saves nothing', async () => {
  const { clientId } = await newApp(browser);
  const { status, text } = await saveApp(browser, clientId, { name: 'Better', redirect_uris: 'javascript:alert(1)' });
  assert.equal(status, 422);
  assert.match(text, /value="Better"/);
  assert.equal((await rowOf(clientId))?.['name'], 'My app');
});

test('settings are saved, and the page confirms it', async () => {
  const { clientId } = await newApp(browser);
  const { status, location } = await saveApp(browser, clientId, { name: 'Better', description: 'Two\r\nlines' });
  assert.deepEqual([status, location], [303, `/account/clients/${clientId}?done=saved`]);
  assert.match((await browser.open(location ?? '')).text, /role="status">Saved\.</);
  assert.equal((await rowOf(clientId))?.['name'], 'Better');
  assert.equal((await browser.open(`/account/clients/${clientId}?done=constructor`)).status, 200);
});

test('scopes and the requirement of PKCE are chosen, shown and audited', async () => {
  const { clientId, path } = await newApp(browser, { scopes: 'store_read', requires_pkce: '1' });
  const settingsOf = async () => {
    const { scopes, requires_pkce: requires } = (await rowOf(clientId)) ?? {};
    return [scopes, requires];
  };
  assert.deepEqual(await settingsOf(), [['store_read'], true]);
  const { text } = await browser.open(path);
  assert.match(text, /name="scopes" value="store_read" checked/);
  assert.doesNotMatch(text, /name="scopes" value="store_full_access" checked/);
  assert.equal((await saveApp(browser, clientId, { scopes: 'webhooks' })).status, 303);
  assert.deepEqual(await settingsOf(), [['webhooks'], false]);
  const [entry] = await sql<{ changed: string[] }[]>`
    select detail->'changed' as changed from audit where action = 'client_changed' order by id desc limit 1`;
  assert.deepEqual(entry?.changed, ['scopes', 'requires_pkce']);
  const refused = await saveApp(browser, clientId, { scopes: 'platform' });
  assert.equal(refused.status, 422);
  assert.match(refused.text, /The scopes must be at least one of store_full_access/);
  // Without any, the app has the two scopes of before.
  await saveApp(browser, clientId, {});
  assert.deepEqual(await settingsOf(), [null, false]);
});

test('a form of an older version overwrites nothing without confirmation', async () => {
  const { clientId, path } = await newApp(browser);
  const stale = hiddenIn(await browser.open(path), path);
  await saveApp(browser, clientId, { name: 'First', company: 'Co' });
  const fields = { name: 'Second', redirect_uris: REGISTERED };
  const refused = await browser.post(path, { ...stale, ...fields });
  assert.equal(refused.status, 409);
  assert.match(refused.text, /role="alert">[^<]*settings have changed/);
  assert.match(refused.text, /value="Second"/);
  assert.equal((await rowOf(clientId))?.['name'], 'First');
  assert.equal((await browser.post(path, { ...hiddenIn(refused, path), ...fields })).status, 303);
  assert.equal((await rowOf(clientId))?.['name'], 'Second');
});

test('an error in an outdated form does not make it current', async () => {
  const { clientId, path } = await newApp(browser);
  const stale = hiddenIn(await browser.open(path), path);
  await saveApp(browser, clientId, { name: 'First' });
  const fields = { name: 'Second', redirect_uris: REGISTERED };
  const mistaken = await browser.post(path, { ...stale, ...fields, contact: 'unknown' });
  assert.equal(mistaken.status, 422);
  assert.equal((await browser.post(path, { ...hiddenIn(mistaken, path), ...fields })).status, 409);
  assert.equal((await rowOf(clientId))?.['name'], 'First');
});

test('settings that are sent twice are saved once, and are no error', async () => {
  const { clientId, path } = await newApp(browser);
  const fields = { ...hiddenIn(await browser.open(path), path), name: 'Twice saved', redirect_uris: REGISTERED };
  const answers = [await browser.post(path, fields), await browser.post(path, fields)];
  assert.deepEqual(
    answers.map(({ status }) => status),
    [303, 303],
  );
  const actions = await sql`
    select from audit where action = 'client_changed' and detail->>'client_id' = ${clientId}`;
  assert.equal(actions.length, 1);
});

test('a logo or a secret that was created meanwhile does not block the settings', async () => {
  const { clientId, path } = await newApp(browser);
  const hidden = hiddenIn(await browser.open(path), path);
  await submit(browser, path, `${path}/secret`);
  assert.equal((await browser.post(path, { ...hidden, name: 'Free', redirect_uris: REGISTERED })).status, 303);
  assert.equal((await rowOf(clientId))?.['name'], 'Free');
});

async function verifiedAfter(fields: Record<string, string>): Promise<unknown> {
  const { clientId } = await newApp(browser);
  await sql`update client set is_verified = true where client_id = ${clientId}`;
  await saveApp(browser, clientId, fields);
  return (await rowOf(clientId))?.['is_verified'];
}

test('an owner who changes the name, logo or addresses of an app makes it unverified', async () => {
  assert.equal(await verifiedAfter({ redirect_uris: 'https://evil.example/cb' }), false);
  assert.equal(await verifiedAfter({ name: 'Your bank' }), false);
  assert.equal(await verifiedAfter({ company: 'Your bank' }), false);
});

test('an owner who changes other settings leaves it verified', async () => {
  assert.equal(
    await verifiedAfter({ contact: 'me@example.com', description: 'Mails', rotates_refresh_tokens: '1' }),
    true,
  );
});

test('a form that is sent twice creates one app, and the second answer leads to it', async () => {
  const hidden = hiddenIn(await browser.open('/account/clients/new'), '/account/clients');
  const fields = { ...hidden, name: 'Twice', redirect_uris: REGISTERED, is_public: '0' };
  const answers = await Promise.all([
    browser.post('/account/clients', fields),
    browser.post('/account/clients', fields),
  ]);
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 303],
  );
  const { location } = answers.find(({ status }) => status === 303) ?? {};
  assert.equal(location, `/account/clients/${hidden['client_id']}?done=made`);
  assert.match((await browser.open(location ?? '')).text, /role="status">[^<]*\bsecret\b/);
  assert.equal((await sql`select from client where name = 'Twice'`).length, 1);
});

test('a client_id chosen by the caller is rejected: the nonce stands for it', async () => {
  const hidden = hiddenIn(await browser.open('/account/clients/new'), '/account/clients');
  const fields = { ...hidden, client_id: 'paypal', name: 'X', redirect_uris: REGISTERED };
  assert.equal((await browser.post('/account/clients', fields)).status, 403);
});

test('a person has at most fifty apps, also with concurrent requests', async () => {
  const owner = { userId: server.bobId, clientsPerUser: 50 };
  const [present] = await sql<{ count: number }[]>`select count(*) from client where owner = ${owner.userId}`;
  const details = { name: 'Many', redirectUris: [REDIRECT], trusted: false, owner, now: new Date() };
  for (let made = present?.count ?? 0; made < 49; made += 1) await createClient(sql, details);
  const answers = await Promise.all([makeApp(bob), makeApp(bob), makeApp(bob)]);
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 409, 409],
  );
  assert.match(answers.find(({ status }) => status === 409)?.text ?? '', /at most 50 apps/);
});

test('the name of an app is shown as text on every page', async () => {
  const name = `<script>alert(1)</script>"><img src=x onerror=alert(1)>`;
  const { clientId, path } = await newApp(browser, { name, company: name, description: name });
  await browser.consent(server.asking({ client_id: clientId, redirect_uri: REGISTERED }));
  const refused = await saveApp(browser, clientId, { name, company: name, redirect_uris: name });
  assert.equal(refused.status, 422);
  const pages = [refused];
  for (const at of [path, `${path}/delete`, '/account/clients', '/account']) pages.push(await browser.open(at));
  for (const { text } of pages) {
    assert.doesNotMatch(text, /<script|<img src=x/);
    assert.match(text, /&lt;script&gt;alert\(1\)&lt;\/script&gt;&quot;&gt;&lt;img/);
  }
});

test('a scope that the operator no longer declares stays, and is not replaced by full access', async () => {
  const { clientId, path } = await newApp(browser);
  await sql`update client set scopes = '{gone:read}' where client_id = ${clientId}`;
  const save = (fields: Record<string, string>) => saveApp(browser, clientId, { name: 'Renamed', ...fields });
  assert.equal((await save({})).status, 303);
  assert.deepEqual((await rowOf(clientId))?.['scopes'], ['gone:read']);
  assert.equal((await save({ scopes: 'store_read' })).status, 303);
  assert.deepEqual((await rowOf(clientId))?.['scopes'], ['store_read', 'gone:read']);
  assert.equal((await save({ scopes: 'other:read' })).status, 422);
  assert.equal((await browser.open(path)).status, 200);
});

test('the page of an app shows the number of its users and its scopes, but not the users', async () => {
  const { clientId, path } = await newApp(browser);
  assert.match((await browser.open(path)).text, /No users yet/);
  const asking = { client_id: clientId, redirect_uri: REGISTERED };
  await browser.consent(server.asking(asking));
  await browser.consent(server.asking({ ...asking, scope: 'user_full_access' }));
  const { text } = await browser.open(path);
  assert.match(text, /1 user[^<]* 1 store[^<]* 1 whole/);
  await sql`update access_grant set date_revoked = now() from client c where c.id = client and c.client_id = ${clientId}`;
  assert.match((await browser.open(path)).text, /No users yet/);
});

test('a deleted app ends at once: its codes, tokens and page', async () => {
  const { clientId, secret, path } = await newApp(browser);
  const credentials = { client_id: clientId, client_secret: secret };
  const asking = { client_id: clientId, redirect_uri: REGISTERED };
  const { body } = await server.redeem(await server.newCode(asking), { ...credentials, redirect_uri: REGISTERED });
  assert.equal((await server.read(server.alpha, String(body['access_token']))).status, 200);
  assert.match((await browser.open(`${path}/delete`)).text, /cannot be undone/);
  const form = hiddenIn(await browser.open(`${path}/delete`), `${path}/delete`);
  for (const click of ['first', 'second'])
    assert.equal((await browser.post(`${path}/delete`, form)).location, '/account/clients?done=deleted', click);
  assert.equal((await server.read(server.alpha, String(body['access_token']))).status, 401);
  const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...credentials };
  assert.equal((await server.token(refresh)).status, 401);
  assert.equal((await browser.open(path)).status, 404);
  assert.match((await browser.open('/account/clients?done=deleted')).text, /role="status">App deleted/);
});

test('refreshes during a deletion are rejected, without deadlocks', async () => {
  const { clientId, secret, path } = await newApp(browser);
  const credentials = { client_id: clientId, client_secret: secret };
  const code = await server.newCode({ client_id: clientId, redirect_uri: REGISTERED });
  const { body } = await server.redeem(code, { ...credentials, redirect_uri: REGISTERED });
  const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...credentials };
  const hidden = hiddenIn(await browser.open(`${path}/delete`), `${path}/delete`);
  const refreshes = Array.from({ length: 30 }, () => server.token(refresh));
  const deleted = browser.post(`${path}/delete`, hidden);
  const more = Array.from({ length: 30 }, () => server.token(refresh));
  assert.equal((await deleted).status, 303);
  for (const { status } of await Promise.all([...refreshes, ...more])) assert.ok(status < 500, String(status));
});

test('each action is in the audit with its actor and address', async () => {
  const { clientId, path } = await newApp(browser);
  const [{ id } = { id: 0 }] = await sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  await saveApp(browser, clientId, { name: 'Renamed' });
  await submit(browser, path, `${path}/secret`);
  await submit(browser, `${path}/delete`, `${path}/delete`);
  const rows = await sql`select action, user_id, address, detail from audit where client = ${id} order by id`;
  assert.deepEqual(
    rows.map(({ action }) => action as string),
    ['client_created', 'client_changed', 'client_secret_rotated', 'client_deleted'],
  );
  for (const row of rows) assert.deepEqual([row['user_id'], row['address']], [adaId, '127.0.0.1']);
  const [, changed] = rows.map(({ detail }) => detail as { changed?: string[] });
  assert.deepEqual(changed?.changed, ['name']);
});
