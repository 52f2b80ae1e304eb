/** An app without a registration: its client_id is the address of its metadata document. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { runCommand } from '../setup/command.ts';
import { urlOf } from '../setup/database.ts';
import { DOCUMENT_REDIRECT, startDocumentHost } from '../setup/document-host.ts';
import { send } from '../setup/send.ts';
import { until } from '../setup/until.ts';
import { createBrowser, readForm, startAuthorizationServer } from '../security/oauth-server.ts';

const LOOPBACK = { OUTBOUND_ALLOW: '127.0.0.0/8' };
const host = await startDocumentHost();
const server = await startAuthorizationServer(LOOPBACK);
const { origin, sql, browser, token, read, alpha } = server;

const VERIFIER = 'v'.repeat(43);
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url');

const asking = (clientId: string, changes: Record<string, string | undefined> = {}) =>
  server.asking({
    client_id: clientId,
    redirect_uri: DOCUMENT_REDIRECT,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    ...changes,
  });
const show = (clientId: string, changes: Record<string, string | undefined> = {}) =>
  browser.open(`/authorize?${new URLSearchParams(asking(clientId, changes)).toString()}`);
const codeOf = ({ location, text }: { location: string | null; text: string }): string =>
  new URL(location ?? assert.fail(text)).searchParams.get('code') ?? assert.fail(location ?? '');
const exchange = (clientId: string, code: string, changes: Record<string, string> = {}) =>
  token({
    grant_type: 'authorization_code',
    client_id: clientId,
    code,
    redirect_uri: DOCUMENT_REDIRECT,
    code_verifier: VERIFIER,
    ...changes,
  });
async function connect(clientId: string) {
  const { status, body } = await exchange(clientId, codeOf(await browser.consent(asking(clientId))));
  assert.equal(status, 200, JSON.stringify(body));
  return { access: String(body['access_token']), refresh: String(body['refresh_token']) };
}
async function rowsOf(clientId: string) {
  return [
    ...(await sql<{ name: string; redirectUris: string[]; isVerified: boolean }[]>`
      select name, redirect_uris as "redirectUris", is_verified as "isVerified" from client where client_id = ${clientId}`),
  ];
}
const requestsOf = (path: string) => host.got.filter((one) => one === `GET ${path}`).length;
const api = async (method: string, path: string) => {
  const { body } = await token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(body['access_token'])}` };
  const { status, text } = await send(origin + path, { method, headers });
  return { status, text };
};

test('the metadata of the server say that it reads documents, and name no registration that it refuses', async () => {
  const metadataOf = async (at: string): Promise<Record<string, unknown>> =>
    JSON.parse((await send(`${at}/.well-known/oauth-authorization-server`)).text);
  const closed = await metadataOf(origin);
  assert.equal(closed['client_id_metadata_document_supported'], true);
  assert.equal('registration_endpoint' in closed, false);
  const other = await startAuthorizationServer({ OPEN_REGISTRATION: '1', CLIENT_METADATA_DOCUMENTS: 'off' });
  const open = await metadataOf(other.origin);
  assert.equal(open['client_id_metadata_document_supported'], false);
  assert.match(String(open['registration_endpoint']), /\/register$/);
  const client = host.publish('/off');
  const { status, text } = await other.browser.open(`/authorize?${new URLSearchParams(asking(client)).toString()}`);
  assert.equal(status, 400);
  assert.match(text, /The client id supplied is invalid/);
  assert.equal(host.got.includes('GET /off'), false);
});

test('a person sees the host of the document and of the redirect, and lets the app in', async () => {
  const client = host.publish('/app', { client_name: 'A <b>bold</b> app', client_uri: 'https://agent.example.com/' });
  const { status, text } = await show(client);
  assert.equal(status, 200, text);
  const bold = [...text.matchAll(/(An app of|Sends you to)[^<]*(?:<\/dt>\s*<dd>)?<strong>([^<]*)<\/strong>/g)];
  assert.deepEqual(
    bold.map(([, term, value]) => [term, value]),
    [
      ['An app of', host.host],
      ['Sends you to', 'agent.example.com'],
    ],
  );
  assert.match(text, /A &lt;b&gt;bold&lt;\/b&gt; app/);
  assert.match(text, /not verified this app/);
  assert.deepEqual(await rowsOf(client), [], 'it has no access yet');
  const { access, refresh } = await connect(client);
  assert.equal((await read(alpha, access)).status, 200);
  const [row] = await rowsOf(client);
  assert.deepEqual([row?.name, row?.redirectUris, row?.isVerified], ['A <b>bold</b> app', [DOCUMENT_REDIRECT], false]);
  const renewed = await token({ grant_type: 'refresh_token', refresh_token: refresh, client_id: client });
  assert.equal(renewed.status, 200);
  assert.notEqual(renewed.body['refresh_token'], refresh, 'the tokens of a public client rotate');
});

test('who denies access leaves nothing behind', async () => {
  const client = host.publish('/denied');
  const { location } = await browser.consent(asking(client), { decision: 'deny' });
  assert.equal(new URL(location ?? '').searchParams.get('error'), 'access_denied');
  assert.deepEqual(await rowsOf(client), []);
});

test('it is in the lists of the person, the store, the operator and the changelog, and is disconnected like any app', async () => {
  const client = host.publish('/listed', { client_name: 'Listed agent' });
  const { access } = await connect(client);
  const account = (await browser.open('/account')).text;
  const [entry = ''] = /<strong>Listed agent<\/strong>[\s\S]*?<\/li>/.exec(account) ?? [];
  assert.ok(entry.includes(host.host), 'the account page names the host');
  const shown = await api('GET', `/clients/${encodeURIComponent(client)}`);
  assert.equal(shown.status, 200);
  const document = JSON.parse(shown.text) as { client_id: string; _links: { self: { href: string } } };
  assert.equal(document.client_id, client);
  assert.ok(document._links.self.href.endsWith(`/clients/${encodeURIComponent(client)}`));
  const changelog = await send(`${origin}/stores/${alpha}/changelogs?resource=grant`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${access}` },
  });
  assert.ok(changelog.text.includes(client), changelog.text);
  const [, action = ''] = /action="([^"]*\/revoke)"/.exec(entry) ?? [];
  const [, nonce = ''] = /name="nonce" value="([^"]*)"/.exec(entry) ?? [];
  await browser.post(action, { nonce });
  assert.equal((await read(alpha, access)).status, 401);
});

test('it revokes its own tokens, and the platform deletes it', async () => {
  const client = host.publish('/deleted');
  const one = await connect(client);
  const form = { client_id: client, token: one.refresh };
  const revoked = await send(`${origin}/revoke`, { method: 'POST', body: new URLSearchParams(form) });
  assert.equal(revoked.status, 200);
  assert.equal((await read(alpha, one.access)).status, 401);
  const two = await connect(client);
  assert.equal((await api('DELETE', `/clients/${encodeURIComponent(client)}`)).status, 204);
  assert.equal((await read(alpha, two.access)).status, 401);
  const again = await browser.consent(asking(client));
  assert.deepEqual([again.status, again.location], [409, null], 'its row is deleted soon');
});

test('the row follows the document at the next consent, and a verified app whose document changed is unverified', async () => {
  const client = host.publish('/changing', { client_name: 'Before' });
  await connect(client);
  const env = { DATABASE_URL: urlOf(server.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };
  const verified = await runCommand(['client', 'verify', client], env);
  assert.equal(verified.code, 0, verified.err);
  server.wait(60_000);
  assert.doesNotMatch((await show(client)).text, /not verified this app/);
  host.publish('/changing', {
    client_name: 'After',
    redirect_uris: [DOCUMENT_REDIRECT, 'https://agent.example.com/2'],
  });
  assert.match((await show(client)).text, /Allow <bdi>Before<\/bdi> access/, 'the document is kept for a minute');
  server.wait(60_000);
  const { text } = await show(client);
  assert.match(text, /Allow <bdi>After<\/bdi> access/);
  assert.match(text, /not verified this app/);
  assert.equal((await rowsOf(client))[0]?.name, 'Before', 'a page changes nothing');
  await connect(client);
  const [row] = await rowsOf(client);
  assert.deepEqual([row?.name, row?.redirectUris.length, row?.isVerified], ['After', 2, false]);
  const audit = await sql<{ action: string }[]>`select action from audit
    where detail->>'client_id' = ${client} order by id`;
  assert.deepEqual(
    audit.map(({ action }) => action),
    ['client_created', 'client_changed', 'client_changed'],
  );
});

test('people who let it in at the same time make one row', async () => {
  const client = host.publish('/twice');
  const pages = await Promise.all([browser.consent(asking(client)), browser.consent(asking(client))]);
  for (const page of pages) assert.equal((await exchange(client, codeOf(page))).status, 200);
  assert.equal((await rowsOf(client)).length, 1);
});

test('access stays when the document is gone, and no more is given', async () => {
  const client = host.publish('/gone');
  const { access, refresh } = await connect(client);
  host.remove('/gone');
  server.wait(60_000);
  const { status, text } = await show(client);
  assert.equal(status, 400);
  assert.match(text, /the status of the response is 404/);
  assert.equal((await read(alpha, access)).status, 200);
  assert.equal((await token({ grant_type: 'refresh_token', refresh_token: refresh, client_id: client })).status, 200);
});

test('the headers of a document say how long it is kept, within a minute and a day', async () => {
  const dated = { Date: new Date(0).toUTCString(), Expires: new Date(600_000).toUTCString() };
  const cases: [path: string, headers: Record<string, string>, keptSeconds: number][] = [
    ['/kept/none', {}, 60],
    ['/kept/no-store', { 'Cache-Control': 'no-store, max-age=600' }, 60],
    ['/kept/short', { 'Cache-Control': 'public, max-age=5' }, 60],
    ['/kept/ten', { 'Cache-Control': 'public, max-age=600' }, 600],
    ['/kept/aged', { 'Cache-Control': 'max-age=600', Age: '300' }, 300],
    ['/kept/expires', dated, 600],
    ['/kept/long', { 'Cache-Control': 'max-age=99999999999' }, 86_400],
  ];
  for (const [path, headers, keptSeconds] of cases) {
    // The session of the browser ends after a day without use.
    await browser.signIn(server.ada);
    const client = host.publish(path, {}, headers);
    await show(client);
    server.wait(keptSeconds * 1_000 - 1);
    await browser.signIn(server.ada);
    await show(client);
    assert.equal(requestsOf(path), 1, `${path} is kept`);
    server.wait(1);
    await show(client);
    assert.equal(requestsOf(path), 2, `${path} is not kept longer`);
  }
});

test('a document is fetched once for requests at the same time', async () => {
  let release = (): void => {};
  const waiting = new Promise<void>((resolve) => void (release = resolve));
  const client: string = host.respondAt('/at-once', (response) => {
    const document = { client_id: client, redirect_uris: [DOCUMENT_REDIRECT] };
    void waiting.then(() =>
      response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8' }).end(JSON.stringify(document)),
    );
  });
  const counted = () => server.statements.filter((one) => one.includes('insert into throttle')).length;
  const before = counted();
  const several = Array.from({ length: 5 }, async () => show(client));
  await until(
    async () => counted() - before,
    (count) => count === 5 && requestsOf('/at-once') > 0,
  );
  release();
  for (const { status, text } of await Promise.all(several)) {
    assert.equal(status, 200, text);
    assert.ok(text.includes(`Allow <bdi>${host.host}</bdi> access?`), 'without a name, it is called by its host');
  }
  assert.equal(requestsOf('/at-once'), 1);
});

test('a failure is not kept', async () => {
  const client = host.respondAt('/failing', (response) => response.writeHead(500).end());
  assert.equal((await show(client)).status, 400);
  host.publish('/failing');
  assert.equal((await show(client)).status, 200);
});

test('a native app uses any port of a loopback address, and the page says that any program can name the host', async () => {
  const client = host.publish('/native', { redirect_uris: ['http://127.0.0.1/callback'], application_type: 'native' });
  const redirectUri = 'http://127.0.0.1:49152/callback';
  const { status, text } = await show(client, { redirect_uri: redirectUri });
  assert.equal(status, 200, text);
  assert.match(text, /any program can say that it is the app of/);
  const page = await browser.consent(asking(client, { redirect_uri: redirectUri }));
  const { status: exchanged } = await exchange(client, codeOf(page), { redirect_uri: redirectUri });
  assert.equal(exchanged, 200);
});

test('members for other servers are no fault: grant types, scopes and keys that this server does not know', async () => {
  const client = host.publish('/many-servers', {
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    response_types: ['code', 'id_token'],
    scope: 'openid store_read mcp:tools',
    logo_uri: 'https://agent.example.com/logo.png',
    jwks_uri: 'https://agent.example.com/jwks.json',
    webhook_url: 'https://agent.example.com/hook',
  });
  const { status, text } = await show(client, { scope: 'store_read' });
  assert.equal(status, 200, text);
  const { location } = await show(client);
  assert.equal(new URL(location ?? '').searchParams.get('error'), 'invalid_scope', 'it has named its scopes');
  const { nonce, action } = readForm(await show(client, { scope: 'store_read' }));
  await browser.post(action, { nonce, decision: 'allow', store: String(alpha) });
  const device = await send(`${origin}/device_authorization`, {
    method: 'POST',
    body: new URLSearchParams({ client_id: client, scope: 'store_read' }),
  });
  assert.equal(JSON.parse(device.text).error, 'unauthorized_client', 'it gets no device codes');
});

test('a person who signs in first comes to the same page', async () => {
  const client = host.publish('/sign-in');
  const stranger = createBrowser(origin);
  const path = `/authorize?${new URLSearchParams(asking(client)).toString()}`;
  const { location } = await stranger.open(path);
  assert.ok(location?.startsWith('/sign-in?'), location ?? '');
  assert.equal(host.got.includes('GET /sign-in'), false, 'a stranger causes no request');
  await stranger.signIn(server.ada);
  assert.equal((await stranger.open(path)).status, 200);
});
