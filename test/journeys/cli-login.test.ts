/** `halcyon login`, `whoami` and `logout`: a person gives a terminal access to a store in their browser. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { COMMAND_LINE_CLIENT, provideCommandLineClient } from '#identity/oauth/clients/clients.ts';
import { withParameters } from '#identity/oauth/redirect-uri.ts';
import { createBrowser, readForm } from '../security/oauth-server.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import {
  printed,
  runProcess,
  startCommand,
  startProcess,
  untilEnded,
  type Ended,
  type Running,
} from '../setup/command.ts';
import { personAtTerminal } from '../setup/person-at-terminal.ts';

const USER = { email: 'owner@example.com', password: 'a long password' };

/** The lifetime of an access token is two hours. */
const PAST_ACCESS_MS = 3 * 3_600_000;

const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });
// Of many processes that start at once, one creates it.
await Promise.all(Array.from({ length: 4 }, () => provideCommandLineClient(app.sql, app.clock.now())));

/** Returns the first line of the answer to a request target that no browser would send. */
async function answerTo(address: string, target: string): Promise<string> {
  const socket = connect(Number(new URL(address).port), '127.0.0.1');
  socket.end(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  const text = (await Array.fromAsync(socket.setEncoding('utf8') as AsyncIterable<string>)).join('');
  return text.split('\r\n', 1)[0] ?? '';
}

type Logins = Record<string, { access_token: string; refresh_token: string }>;

test('the client of the command line is not deleted by mistake', async () => {
  const answer = await app.api('DELETE', `/clients/${COMMAND_LINE_CLIENT}`, { token: app.platformToken });
  assert.equal(answer.status, 409);
});

test('a terminal logs in to a store, shows its identity, and logs out again', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const login = await person.login();
  assert.equal(login.code, 0, login.err);
  assert.match(login.out, new RegExp(`${app.baseUrl}, .*Test Store .*${app.storeId}, test.example.com`));
  assert.equal(login.address.searchParams.get('client_id'), COMMAND_LINE_CLIENT);
  assert.equal(login.address.searchParams.get('code_challenge_method'), 'S256');
  assert.match(await login.cameBack.text(), /You can close this tab/);

  const path = join(person.folder, 'credentials.json');
  const modes = await Promise.all([path, person.folder].map(async (each) => (await stat(each)).mode & 0o777));
  assert.deepEqual(modes, [0o600, 0o700]);
  const { [app.baseUrl]: kept } = JSON.parse(await readFile(path, 'utf8')) as Logins;
  assert.ok(kept !== undefined);
  for (const said of [login.out, login.err]) assert.ok(!/hal_[ar]t_/.test(said), 'no token is printed');

  const who = await person.run('whoami', '--json', '--server', new URL(app.baseUrl).host);
  const { store, scope } = JSON.parse(who.out) as { store: object; scope: string };
  assert.deepEqual(store, { id: app.storeId, name: 'Test Store', domain: 'test.example.com' });
  assert.match(scope, /^store_full_access/);

  const logout = await runProcess(['logout'], person.env);
  assert.equal(logout.code, 0, logout.err);
  const refused = await app.api('GET', '/', { token: kept.access_token });
  assert.equal(refused.status, 401, 'the grant is revoked at the server, too');
  const after = await person.run('whoami');
  assert.equal(after.code, 1);
  assert.ok(after.err.endsWith(`: run halcyon login --server ${app.baseUrl}\n`), after.err);
});

test('a denial in the browser ends the login with a message and without further waiting', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const denied = await person.login('deny');
  assert.equal(denied.code, 1);
  assert.match(denied.err, /You did not allow it in the browser/);
  const late = await person.run('login', '--no-browser', '--timeout', '1');
  assert.equal(late.code, 1);
  assert.match(late.err, / 1 s\. .*--timeout/);
});

/** Decides in a browser with the code that `login` shows. */
async function decideByCode(login: Running, decision: 'allow' | 'deny'): Promise<Ended> {
  const userCode = await printed(login, /code: (\S+)\n/);
  assert.ok(login.said().includes(`\n  ${app.baseUrl}/device\n`), login.said());
  const browser = createBrowser(app.baseUrl);
  await browser.signIn(USER.email, USER.password);
  const { action, nonce } = readForm(await browser.open(`/device?user_code=${userCode}`));
  const { status } = await browser.post(action, { nonce, decision, store: String(app.storeId) });
  assert.equal(status, 200);
  return untilEnded(login);
}

test('over SSH, without a display and with --device a terminal logs in with a code that is entered in a browser elsewhere', async () => {
  const [allowing, denying] = [
    await personAtTerminal(app.baseUrl, USER, ends),
    await personAtTerminal(app.baseUrl, USER, ends),
  ];
  const display = { DISPLAY: ':0' };
  const overSsh = startCommand(['login'], {
    ...allowing.env,
    ...display,
    SSH_CONNECTION: '192.0.2.1 50000 192.0.2.2 22',
  });
  const [allowed, ...denied] = await Promise.all([
    decideByCode(overSsh, 'allow'),
    decideByCode(startProcess(['login'], denying.env), 'deny'),
    decideByCode(startCommand(['login', '--device'], { ...denying.env, ...display }), 'deny'),
  ]);
  assert.equal(allowed.code, 0, allowed.err);
  assert.match(allowed.out, new RegExp(`You are logged in at ${app.baseUrl}, to Test Store`));
  assert.ok(!/hal_[a-z]{2}_/.test(overSsh.said()), 'no token is printed');
  const who = await allowing.run('whoami', '--json');
  assert.match((JSON.parse(who.out) as { scope: string }).scope, /^store_full_access/);
  for (const { code, err } of denied) {
    assert.equal(code, 1);
    assert.match(err, /You did not allow it in the browser/);
  }
});

test('an answer of another login or another issuer is ignored', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const login = startProcess(['login', '--no-browser'], person.env);
  const asked = new URL(await printed(login, /(http\S+\/authorize\?\S+)\n/));
  const back = (query: Record<string, string>) =>
    fetch(withParameters(asked.searchParams.get('redirect_uri') ?? '', { code: 'hal_ac_x', ...query }));
  const state = asked.searchParams.get('state') ?? '';
  assert.equal((await back({ state: 'another', iss: app.baseUrl })).status, 400);
  assert.equal((await back({ state, iss: 'https://other.example.com' })).status, 400);
  assert.equal((await back({ state })).status, 400);
  assert.equal(await answerTo(asked.searchParams.get('redirect_uri') ?? '', '//['), 'HTTP/1.1 404 Not Found');
  login.kill('SIGINT');
  const { code, err } = await login.ended;
  assert.deepEqual(
    [code, err.endsWith('SIGINT: you are not logged in\n')],
    [130, true],
    'it waited for its own answer',
  );
});

/** Starts an unrelated server and returns its address. */
async function foreign(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  ends.after(async () => void server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a server whose metadata is `claims` of its own address. */
async function impostor(claims: (self: string) => object): Promise<string> {
  const self = await foreign((_request, response) => response.end(JSON.stringify(claims(self))));
  return self;
}

test('login rejects a server whose metadata names another issuer', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const login = (server: string) => person.run('login', '--no-browser', '--timeout', '1', '--server', server);
  const linksTo = (self: string, issuer: string) => ({
    _links: { self: { href: self }, authorize: { href: `${issuer}/authorize` } },
  });
  // Otherwise it would receive the token that another issuer gives.
  const stranger = await impostor((self) => linksTo(self, app.baseUrl));
  const unknown = await login(stranger);
  assert.deepEqual([unknown.code, unknown.err.includes('/authorize?')], [1, false], unknown.err);
  assert.match(unknown.err, new RegExp(`${app.baseUrl} .* ${stranger}: `));
  // Otherwise it would put its own login in the place of the login at another server.
  const endpoints = (self: string) =>
    Object.fromEntries(['authorization', 'token', 'revocation'].map((name) => [`${name}_endpoint`, `${self}/${name}`]));
  const posing = await impostor((self) => ({
    ...linksTo(app.baseUrl, self),
    ...endpoints(self),
    issuer: self,
    protected_resources: [app.baseUrl],
  }));
  const led = await login(posing);
  assert.ok(led.err.includes(`${app.baseUrl}/authorize?`), led.err);
});

test('many commands at once renew an expired token, and the login stays', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  assert.equal((await person.login()).code, 0);
  const path = join(person.folder, 'credentials.json');
  const logins = async () => (JSON.parse(await readFile(path, 'utf8')) as Logins)[app.baseUrl];
  const before = await logins();
  app.clock.advance(PAST_ACCESS_MS);
  const others = Array.from({ length: 3 }, () => person.run('whoami'));
  const all = await Promise.all([runProcess(['whoami'], person.env), ...others]);
  assert.deepEqual(
    all.map(({ code, err }) => [code, err]),
    all.map(() => [0, '']),
  );
  const after = await logins();
  assert.ok(after !== undefined && after.refresh_token !== before?.refresh_token);
  // Ends with the newest token: presenting one that was replaced long ago would revoke the grant.
  app.clock.advance(PAST_ACCESS_MS);
  assert.equal((await person.run('whoami')).code, 0);
  // A login that was ended elsewhere is reported with what to do.
  await app.sql`update access_grant set date_revoked = ${app.clock.now()} where date_revoked is null`;
  const over = await person.run('whoami');
  assert.deepEqual([over.code, /run halcyon login/.test(over.err)], [1, true], over.err);
  assert.equal(await logins(), undefined);
});

test('a login stays unless the token endpoint answers that it has ended', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  assert.equal((await person.login()).code, 0);
  const path = join(person.folder, 'credentials.json');
  const logins = async () => JSON.parse(await readFile(path, 'utf8')) as Logins;
  let [status, body]: readonly [number, string] = [404, ''];
  // As the token endpoint responds to a client that it does not know.
  const headers = { Location: '/', 'Content-Type': 'application/json', 'WWW-Authenticate': 'Basic realm="halcyon"' };
  const before = await foreign((_request, response) => response.writeHead(status, headers).end(body));
  const { [app.baseUrl]: kept } = await logins();
  const spent = { [app.baseUrl]: { ...kept, access_token: 'hal_at_spent', token_endpoint: `${before}/token` } };
  await writeFile(path, JSON.stringify(spent));
  const answers = [
    [302, ''],
    [400, '{"error":"invalid_request"}'],
    [404, '{"error":"invalid_grant"}'],
  ] as const;
  for ([status, body] of answers) {
    const { code, err } = await person.run('whoami');
    assert.deepEqual([code, err.startsWith(`halcyon: No answer from ${before} (`)], [3, true], err);
    assert.deepEqual(await logins(), spent);
  }
  [status, body] = [401, '{"error":"invalid_client"}'];
  assert.equal((await person.run('whoami')).code, 1);
  assert.deepEqual(await logins(), {});
});

test('a server that is unreachable, is no Halcyon, or has no TLS gets a message of its own', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const away = await person.run('login', '--server', 'http://127.0.0.1:1');
  assert.deepEqual([away.code, /No answer from http:\/\/127\.0\.0\.1:1 /.test(away.err)], [3, true], away.err);
  const plain = await person.run('login', '--server', 'http://api.example.com');
  assert.deepEqual([plain.code, /use https/.test(plain.err)], [1, true], plain.err);
  const confused = await person.run('login', '--server', app.baseUrl.replace('http:', 'https:'));
  assert.deepEqual([confused.code, /speaks http, not https/.test(confused.err)], [3, true], confused.err);
  const other = await person.run('login', '--server', `${app.baseUrl}/health`);
  assert.deepEqual([other.code, /is no Halcyon/.test(other.err)], [1, true], other.err);
});
