/** `halcyon login`, `whoami` and `logout`: a person at a terminal lets it into a store, in their browser. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { COMMAND_LINE_CLIENT, provideCommandLineClient } from '#identity/oauth/clients/command-line.ts';
import { withParameters } from '#identity/oauth/redirect-uri.ts';
import { startTestApp } from '../setup/app.ts';
import { endings } from '../setup/endings.ts';
import { QUICK_MS, personAtTerminal } from '../setup/person-at-terminal.ts';
import { until } from '../setup/until.ts';

const USER = { email: 'owner@example.com', password: 'a long password' };

/** An access token is good for two hours. */
const PAST_ACCESS_MS = 3 * 3_600_000;

const ends = endings();
const app = await startTestApp({ roles: ['serve'] });
// Of many processes that start at once one makes it.
await Promise.all(Array.from({ length: 4 }, () => provideCommandLineClient(app.sql, app.clock.now())));

/** The first line that answers a request target which no browser would send. */
async function answerTo(address: string, target: string): Promise<string> {
  const socket = connect(Number(new URL(address).port), '127.0.0.1');
  socket.end(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  const text = (await Array.fromAsync(socket.setEncoding('utf8') as AsyncIterable<string>)).join('');
  return text.split('\r\n', 1)[0] ?? '';
}

type Logins = Record<string, { access_token: string; refresh_token: string }>;

test("the command line's client is not deleted by mistake", async () => {
  const answer = await app.api('DELETE', `/clients/${COMMAND_LINE_CLIENT}`, { token: app.platformToken });
  assert.equal(answer.status, 409);
});

test('a terminal is let into a store, says who it is, and is let out again', async () => {
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
  for (const said of [login.out, login.err]) assert.ok(!/hal_[ar]t_/.test(said), 'no token is said');

  const who = await person.run('whoami', '--json', '--server', new URL(app.baseUrl).host);
  const { store, scope } = JSON.parse(who.out) as { store: object; scope: string };
  assert.deepEqual(store, { id: app.storeId, name: 'Test Store', domain: 'test.example.com' });
  assert.match(scope, /^store_full_access/);

  const logout = await person.run('logout');
  assert.equal(logout.code, 0, logout.err);
  const refused = await app.api('GET', '/', { token: kept.access_token });
  assert.equal(refused.status, 401, 'what it had is ended at the server, too');
  const after = await person.run('whoami');
  assert.equal(after.code, 1);
  assert.ok(after.err.endsWith(`: run halcyon login --server ${app.baseUrl}\n`), after.err);
});

test('whoever says no in the browser is told so, and nobody waits for ever', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const denied = await person.login('deny');
  assert.equal(denied.code, 1);
  assert.match(denied.err, /You did not allow it in the browser/);
  const late = await person.run('login', '--no-browser', '--timeout', '1');
  assert.equal(late.code, 1);
  assert.match(late.err, / 1 s\. .*--timeout/);
});

test('what comes back from another login, or from another issuer, is not taken', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const child = person.start('login', '--no-browser');
  const said = await until(
    async () => child.said(),
    (text) => text.includes('/authorize?'),
    QUICK_MS,
  );
  const asked = new URL(/http\S+\/authorize\?\S+/.exec(said)?.[0] ?? '');
  const back = (query: Record<string, string>) =>
    fetch(withParameters(asked.searchParams.get('redirect_uri') ?? '', { code: 'hal_ac_x', ...query }));
  const state = asked.searchParams.get('state') ?? '';
  assert.equal((await back({ state: 'another', iss: app.baseUrl })).status, 400);
  assert.equal((await back({ state, iss: 'https://other.example.com' })).status, 400);
  assert.equal((await back({ state })).status, 400);
  assert.equal(await answerTo(asked.searchParams.get('redirect_uri') ?? '', '//['), 'HTTP/1.1 404 Not Found');
  assert.equal(child.exitCode, null, 'it goes on waiting for the right one');
  child.kill('SIGINT');
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.once('close', resolve);
  assert.equal(await promise, 130);
});

/** The address of a server that has nothing to do with ours. */
async function foreign(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  ends.after(async () => void server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that says what it likes of itself: `told` is made of its own address. */
async function impostor(told: (self: string) => object): Promise<string> {
  const self = await foreign((_request, response) => response.end(JSON.stringify(told(self))));
  return self;
}

test('nobody is signed in for a server that is not who it says', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  const login = (server: string) => person.run('login', '--no-browser', '--timeout', '1', '--server', server);
  const linksTo = (self: string, issuer: string) => ({
    _links: { self: { href: self }, authorize: { href: `${issuer}/authorize` } },
  });
  // It would be shown the token that the issuer of another one gives.
  const stranger = await impostor((self) => linksTo(self, app.baseUrl));
  const unknown = await login(stranger);
  assert.deepEqual([unknown.code, unknown.err.includes('/authorize?')], [1, false], unknown.err);
  assert.match(unknown.err, new RegExp(`${app.baseUrl} .* ${stranger}: `));
  // It would put a login of its own in the place of the one at another.
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

test('many commands at once renew a token that has run out, and the login stays', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  assert.equal((await person.login()).code, 0);
  const path = join(person.folder, 'credentials.json');
  const logins = async () => (JSON.parse(await readFile(path, 'utf8')) as Logins)[app.baseUrl];
  const before = await logins();
  app.clock.advance(PAST_ACCESS_MS);
  const all = await Promise.all(Array.from({ length: 4 }, () => person.run('whoami')));
  assert.deepEqual(
    all.map(({ code, err }) => [code, err]),
    all.map(() => [0, '']),
  );
  const after = await logins();
  assert.ok(after !== undefined && after.refresh_token !== before?.refresh_token);
  // It is one's last word that counts: what was replaced long ago, presented again, would have ended it.
  app.clock.advance(PAST_ACCESS_MS);
  assert.equal((await person.run('whoami')).code, 0);
  // A login that was ended elsewhere is over, and says what to do.
  await app.sql`update access_grant set date_revoked = ${app.clock.now()} where date_revoked is null`;
  const over = await person.run('whoami');
  assert.deepEqual([over.code, /run halcyon login/.test(over.err)], [1, true], over.err);
  assert.equal(await logins(), undefined);
});

test('a login stays where whatever answers for the token endpoint does not say that it is over', async () => {
  const person = await personAtTerminal(app.baseUrl, USER, ends);
  assert.equal((await person.login()).code, 0);
  const path = join(person.folder, 'credentials.json');
  const logins = async () => JSON.parse(await readFile(path, 'utf8')) as Logins;
  let [status, body]: readonly [number, string] = [404, ''];
  const before = await foreign((_request, response) => response.writeHead(status, { Location: '/' }).end(body));
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

test('a server that is away, is no Halcyon, or may be overheard is told apart', async () => {
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
