/** Tokens that the owner of an app gets on its page, without a redirect address: for a program that only the owner uses. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import * as oauth from 'oauth4webapi';
import { createBrowser, readForm, startAuthorizationServer, type Page } from '../security/oauth-server.ts';
import { newApp } from '../security/page-forms.ts';
import { runCommand } from '../setup/command.ts';
import { urlOf } from '../setup/database.ts';

const DAY_MS = 86_400_000;
const server = await startAuthorizationServer({}, { isResolvable: true });
const { sql, origin, browser, alpha, foreign, adaId, read, wait } = server;

/** A program of Ada without a redirect address. */
async function program(fields: Record<string, string> = {}) {
  await browser.signIn(server.ada);
  return newApp(browser, { redirect_uris: '', ...fields });
}

const pathOf = (clientId: string, query: Record<string, string>) =>
  `/account/clients/${clientId}/token?${new URLSearchParams({ days: '', ...query }).toString()}`;

/** Allows the program what the page asks for, with these fields, and returns the page that follows. */
async function allow(path: string, fields: Record<string, string> = { store: String(alpha) }): Promise<Page> {
  const { action, nonce } = readForm(await browser.open(path));
  return browser.post(action, { nonce, decision: 'allow', ...fields });
}

function tokensIn({ status, text }: Page): { access: string; refresh: string } {
  assert.equal(status, 200, text);
  const [access = ''] = /hal_at_[\w-]{43}/.exec(text) ?? [];
  const [refresh = ''] = /hal_rt_[\w-]{43}/.exec(text) ?? [];
  return { access, refresh };
}

/** Returns the commands that the page shows. */
function commandsIn({ text }: Page): string[] {
  const commands = [...text.matchAll(/<pre><code>(.*?)<\/code><\/pre>/gs)];
  const written = { '&lt;': '<', '&gt;': '>', '&#39;': "'", '&amp;': '&' };
  return commands.map(([, command = '']) =>
    command.replaceAll(/&(?:lt|gt|#39|amp);/g, (escaped) => written[escaped as keyof typeof written]),
  );
}

const grants = async () => (await sql`select from access_grant where date_revoked is null`).length;

test('a program without a redirect address gets tokens for a store, and a library refreshes them', async () => {
  const { clientId, secret, path } = await program();
  const start = await browser.open(path);
  assert.ok(start.text.includes(`<form method="get" action="${path}/token">`));
  const page = await allow(pathOf(clientId, { scope: 'store_full_access' }));
  const { access, refresh } = tokensIn(page);
  assert.equal((await read(alpha, access)).status, 200);
  for (const command of commandsIn(page)) {
    const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('<client secret>', secret)]);
    assert.match(stdout, /"_links"|"access_token"/, command);
  }
  assert.equal((await read(foreign, access)).status, 404);

  const issuer = new URL(origin);
  const insecure = { [oauth.allowInsecureRequests]: true };
  const as = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure }),
  );
  const client = { client_id: clientId };
  const response = await oauth.refreshTokenGrantRequest(as, client, oauth.ClientSecretBasic(secret), refresh, insecure);
  const refreshed = await oauth.processRefreshTokenResponse(as, client, response);
  assert.equal(refreshed.scope, `store_full_access store_id_${alpha}`);
  assert.equal((await read(alpha, refreshed.access_token)).status, 200);

  const [given] = await sql<{ action: string; user_id: number; store_id: number }[]>`
    select action, user_id, store_id from audit where action = 'grant_given' order by id desc limit 1`;
  assert.deepEqual(given, { action: 'grant_given', user_id: adaId, store_id: alpha });
  await browser.post(`/account/connected/${await grantOf(clientId)}/revoke`, await nonceOfRevoke(clientId));
  assert.equal((await read(alpha, access)).status, 401);
});

async function grantOf(clientId: string): Promise<number> {
  const [grant] = await sql<{ id: number }[]>`
    select g.id from access_grant g join client c on c.id = g.client where c.client_id = ${clientId} order by g.id desc`;
  return grant?.id ?? NaN;
}

async function nonceOfRevoke(clientId: string): Promise<{ nonce: string }> {
  const { text } = await browser.open('/account');
  const at = text.indexOf(`/account/connected/${await grantOf(clientId)}/revoke`);
  return { nonce: /name="nonce" value="([^"]*)"/.exec(text.slice(at))?.[1] ?? '' };
}

test('access ends on the day that was chosen, and the lists say when', async () => {
  const { clientId, secret } = await program();
  const page = await browser.open(pathOf(clientId, { scope: 'store_full_access', days: '30' }));
  const ends = new Date(server.now().getTime() + 30 * DAY_MS);
  assert.ok(page.text.includes(ends.toISOString()), 'the page says when the access ends');
  const { refresh } = tokensIn(await allow(pathOf(clientId, { scope: 'store_full_access', days: '30' })));
  const shown = `datetime="${ends.toISOString().slice(0, 10)}`;
  assert.ok((await browser.open('/account')).text.includes(shown));
  const refreshed = () =>
    server.token({ grant_type: 'refresh_token', refresh_token: refresh, client_id: clientId, client_secret: secret });
  wait(30 * DAY_MS - 60_000);
  const last = await refreshed();
  assert.equal(last.status, 200);
  wait(60_000);
  assert.equal((await read(alpha, String(last.body['access_token']))).status, 401);
  assert.deepEqual((await refreshed()).body['error'], 'invalid_grant');
});

test('only the owner of an app sees the page, and only with a scope of the app and days that can be chosen', async () => {
  const { clientId } = await program({ scopes: 'store_read' });
  const path = pathOf(clientId, { scope: 'store_read' });
  const [bob, visitor] = [createBrowser(origin), createBrowser(origin)];
  await bob.signIn(server.bob);
  assert.equal((await visitor.open(path)).location, `/sign-in?return_to=${encodeURIComponent(path)}`);
  const { nonce } = readForm(await browser.open(path));
  const form = { nonce, decision: 'allow', store: String(alpha) };
  const before = await grants();
  const statuses = [
    (await bob.open(path)).status,
    (await bob.post(path, form)).status,
    (await visitor.post(path, form)).status,
    (await browser.open(pathOf(server.client.client_id, { scope: 'store_full_access' }))).status,
    (await browser.open(pathOf(clientId, { scope: 'store_full_access' }))).status,
    (await browser.open(pathOf(clientId, { scope: 'platform' }))).status,
    (await browser.open(pathOf(clientId, {}))).status,
    (await browser.open(pathOf(clientId, { scope: 'store_read', days: '31' }))).status,
    // The nonce is bound to the scope and to the days.
    (await browser.post(pathOf(clientId, { scope: 'store_read', days: '30' }), form)).status,
    (await browser.post(path, { ...form, store: String(foreign) })).status,
  ];
  assert.deepEqual(statuses, [404, 404, 303, 404, 400, 400, 400, 400, 403, 422]);
  assert.equal(await grants(), before);
});

test('the person confirms also access that can only read, because the tokens outlive the session', async () => {
  const { clientId } = await program({ scopes: 'store_read' });
  const path = pathOf(clientId, { scope: 'store_read' });
  const idle = createBrowser(origin, { confirms: false });
  await idle.signIn(server.ada);
  wait(11 * 60_000);
  const { action, nonce } = readForm(await idle.open(path));
  const before = await grants();
  const asked = await idle.post(action, { nonce, decision: 'allow', store: String(alpha) });
  assert.equal(asked.status, 403);
  assert.match(asked.text, /Confirm that it is you/);
  assert.equal(await grants(), before);
});

test('the operator creates an app of a member with tokens for a store of that member', async () => {
  const env: Record<string, string> = {
    DATABASE_URL: urlOf(server.address),
    HALCYON_SECRET_KEY: '07'.repeat(32),
    LOG_LEVEL: 'silent',
  };
  const create = (...options: string[]) => runCommand(['client', 'create', '--name', 'Export', ...options], env);
  const { code, out, err } = await create(
    '--owner',
    server.ada,
    '--store',
    String(alpha),
    '--scope',
    'store_read',
    '--json',
  );
  assert.equal(code, 0, err);
  const made = JSON.parse(out) as Record<
    'client_id' | 'client_secret' | 'access_token' | 'refresh_token' | 'scope',
    string
  >;
  assert.equal(made.scope, `store_read store_id_${alpha}`);
  assert.equal((await read(alpha, made.access_token)).status, 200);
  const { client_id, client_secret, refresh_token } = made;
  const refreshed = await server.token({ grant_type: 'refresh_token', refresh_token, client_id, client_secret });
  assert.equal(refreshed.body['scope'], made.scope);
  const apps = async () => (await sql`select from client`).length;
  const before = await apps();
  const refused: [options: string[], code: number, message: RegExp][] = [
    [['--store', String(alpha)], 2, /--store needs --owner/],
    [['--owner', server.ada, '--store', String(foreign)], 1, /of which the owner of the app is a member/],
    [['--owner', server.ada, '--store', String(alpha), '--scope', 'user_full_access'], 2, /no scope for a store/],
    [['--owner', server.ada, '--store', 'mine'], 2, /--store must be an id/],
  ];
  for (const [options, exit, message] of refused) {
    const ended = await create(...options);
    assert.equal(ended.code, exit, ended.err);
    assert.match(ended.err, message);
  }
  env['REQUIRE_SECOND_FACTOR'] = '1';
  assert.match((await create('--owner', server.ada, '--store', String(alpha))).err, /no second factor/);
  assert.equal(await apps(), before);
});

/** Creates a client as the platform. */
async function createByPlatform(body: object, at = origin) {
  const granted = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const headers = {
    'SERVICE-API-VERSION': '1',
    'Content-Type': 'application/json',
    Authorization: `Bearer ${String(granted.body['access_token'])}`,
  };
  const response = await fetch(`${at}/clients`, { method: 'POST', headers, body: JSON.stringify(body) });
  const made = (await response.json()) as Record<
    'client_id' | 'client_secret' | 'access_token' | 'refresh_token',
    string
  >;
  return { status: response.status, caching: response.headers.get('cache-control'), made, headers };
}

test('the platform creates an app of a member with tokens for a store of that member, which end on the day that it says', async () => {
  const body = { name: 'Export', owner: adaId, store: alpha, scopes: ['store_read'], access_days: 90 };
  const { status, caching, made, headers } = await createByPlatform(body);
  assert.deepEqual([status, caching], [201, 'no-store'], JSON.stringify(made));
  const { client_id, client_secret, access_token, refresh_token } = made;
  assert.equal((await read(alpha, access_token)).status, 200);
  const form = { grant_type: 'refresh_token', refresh_token, client_id, client_secret };
  assert.equal((await server.token(form)).body['scope'], `store_read store_id_${alpha}`);
  const shown = (await (await fetch(`${origin}/clients/${client_id}`, { headers })).json()) as Record<string, unknown>;
  assert.deepEqual([shown['access_token'], shown['refresh_token']], [null, null]);
  const entries = await fetch(`${origin}/stores/${alpha}/changelogs?resource=grant`, { headers });
  const { _embedded: listed } = (await entries.json()) as { _embedded: Record<string, Record<string, unknown>[]> };
  const ofPlatform = listed['svc:changelogs']?.filter(({ client }) => client === server.platform.client_id) ?? [];
  assert.deepEqual(
    ofPlatform.map(({ action, actor }) => [action, actor]),
    [['given', 'platform']],
  );
  wait(90 * DAY_MS - 60_000);
  const last = await server.token(form);
  assert.equal(last.status, 200);
  wait(60_000);
  assert.equal((await read(alpha, String(last.body['access_token']))).status, 401);
});

test('the platform gets no tokens for a store of others, without an owner, or for scopes of no store', async () => {
  const rows = async () => (await sql`select from client union all select from access_grant`).length;
  const body = { name: 'Export', owner: adaId, store: alpha };
  const refused: [object, string][] = [
    [{ store: foreign }, 'store'],
    [{ owner: null, redirect_uris: ['https://app.example/cb'] }, 'owner'],
    [{ scopes: ['user_full_access'] }, 'scopes'],
    [{ access_days: 0 }, 'access_days'],
    [{ store: undefined, access_days: 30 }, 'access_days'],
  ];
  await createByPlatform({ name: 'Warm' });
  const before = await rows();
  for (const [difference, field] of refused) {
    const { status, made } = await createByPlatform({ ...body, ...difference });
    assert.equal(status, 400);
    const {
      _embedded: { 'svc:errors': faults },
    } = made as unknown as { _embedded: Record<'svc:errors', { field: string }[]> };
    assert.deepEqual(
      faults.map((fault) => fault.field),
      [field],
    );
  }
  assert.equal(await rows(), before);
});

test('a store is closed to apps of members without a second factor that it or the operator requires, and to those of disabled members', async () => {
  const body = { name: 'Export', owner: adaId, store: alpha };
  const rows = async () => (await sql`select from client union all select from access_grant`).length;
  await createByPlatform({ name: 'Warm' });
  const before = await rows();
  const statusOf = async (at?: string) => (await createByPlatform(body, at)).status;
  const statuses: number[] = [];
  await sql`update store set second_factor = 'required' where id = ${alpha}`;
  statuses.push(await statusOf());
  await sql`update store set second_factor = 'optional' where id = ${alpha}`;
  statuses.push(await statusOf(await server.startSecond(undefined, { REQUIRE_SECOND_FACTOR: '1' })));
  await sql`update users set date_disabled = now() where id = ${adaId}`;
  statuses.push(await statusOf());
  await sql`update users set date_disabled = null where id = ${adaId}`;
  assert.deepEqual([...statuses, (await rows()) - before], [409, 409, 409, 0]);
  assert.equal(await statusOf(), 201);
});

test('a denial leads back to the app', async () => {
  const { clientId, path } = await program();
  const { action, nonce } = readForm(await browser.open(pathOf(clientId, { scope: 'user_full_access' })));
  const before = await grants();
  assert.equal((await browser.post(action, { nonce, decision: 'deny' })).location, path);
  assert.equal(await grants(), before);
});

test('an app without a redirect address cannot send anybody back', async () => {
  const { clientId } = await program();
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    scope: 'store_full_access',
    state: 's',
    redirect_uri: 'https://evil.example/',
  });
  const { status, location } = await browser.open(`/authorize?${query.toString()}`);
  assert.deepEqual([status, location], [400, null]);
});
