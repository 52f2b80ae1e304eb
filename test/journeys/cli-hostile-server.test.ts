/** The commands of a login at a server that is hostile: it harms neither files, nor other logins, nor this computer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { cleanups } from '../setup/cleanups.ts';
import { runCommand } from '../setup/command.ts';
import { personAtTerminal, type PersonAtTerminal } from '../setup/person-at-terminal.ts';

const USER = { email: 'owner@example.com', password: 'a long password' };

const ends = cleanups();

type Answer = object | ((response: ServerResponse) => void);
/** The answers by path, which replace those of a genuine server. */
type Answers = Record<string, Answer>;

const METADATA = '/.well-known/oauth-authorization-server';
const TOKENS = { access_token: 'a', refresh_token: 'r', expires_in: 3_600, scope: 's', token_type: 'bearer' };

function deviceCodeOf(self: string) {
  return {
    device_code: 'dc',
    user_code: 'WDJB-MJHT',
    verification_uri: `${self}/device`,
    expires_in: 600,
    interval: 1,
  };
}

function genuineAnswers(self: string): Answers {
  const endpoints = ['authorization', 'token', 'revocation', 'device_authorization'];
  return {
    '/': {
      _links: { self: { href: self }, authorize: { href: `${self}/authorize` }, store: { href: `${self}/store` } },
    },
    [METADATA]: {
      issuer: self,
      protected_resources: [self],
      ...Object.fromEntries(endpoints.map((name) => [`${name}_endpoint`, `${self}/${name}`])),
    },
    '/device_authorization': deviceCodeOf(self),
    '/token': TOKENS,
    '/store': { id: 1, name: 'Shop', domain: 'shop.example', _links: { webhooks: { href: `${self}/webhooks` } } },
    '/webhooks': { id: 7, events: ['a/b'], _links: { listen: { href: `${self}/gone` } } },
  };
}

type Hostile = { url: string; person: PersonAtTerminal; login: () => ReturnType<PersonAtTerminal['run']> };

/** Starts a server that answers as a genuine one but for `answersOf` of its own address, and a person who uses it. */
async function hostile(answersOf: (self: string) => Answers = () => ({})): Promise<Hostile> {
  const server = createServer((request, response) => {
    const answer = answers[new URL(request.url ?? '/', url).pathname];
    request.resume();
    if (typeof answer === 'function') return answer(response);
    response.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
    return response.end(JSON.stringify(answer ?? {}));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answers = { ...genuineAnswers(url), ...answersOf(url) };
  const person = await personAtTerminal(url, USER, ends);
  return { url, person, login: () => person.run('login', '--device', '--timeout', '5') };
}

/** Stores a login as `halcyon login` would. */
async function logIn({ url, person }: Hostile): Promise<void> {
  const { access_token, refresh_token, scope } = TOKENS;
  const expires = new Date(0).toISOString();
  const endpoints = { token_endpoint: `${url}/token`, revocation_endpoint: `${url}/revocation` };
  const login = { issuer: url, ...endpoints, access_token, refresh_token, expires, scope };
  await mkdir(person.folder, { recursive: true });
  await writeFile(join(person.folder, 'credentials.json'), JSON.stringify({ [url]: login }));
}

test('a webhook whose id is none is rejected, and no file is written or deleted', async () => {
  for (const id of [
    '../credentials',
    '../../package',
    '7/../../package',
    '',
    '0',
    -1,
    1.5,
    null,
    {},
    { toString: 1 },
  ]) {
    const server = await hostile((self) => ({
      '/webhooks': { id, events: ['a/b'], _links: { listen: { href: `${self}/gone` } } },
    }));
    await logIn(server);
    const { env, folder, run } = server.person;
    const own = [join(env['XDG_CONFIG_HOME'] ?? '', 'package.json'), join(folder, 'credentials.json')];
    await writeFile(own[0] ?? '', '{}');
    const before = await Promise.all(own.map((path) => readFile(path, 'utf8')));
    const { code, err } = await run('listen');
    assert.deepEqual([code, /is no webhook of Halcyon/.test(err)], [1, true], err);
    assert.deepEqual(await Promise.all(own.map((path) => readFile(path, 'utf8'))), before);
    assert.deepEqual(await readdir(join(folder, 'listening')).catch(() => []), []);
  }
});

test('a listener leaves the record of a listener at another server, whose webhook may have the same id', async () => {
  const server = await hostile();
  await logIn(server);
  const records = join(server.person.folder, 'listening');
  await mkdir(records);
  const other = JSON.stringify({
    server: 'https://other.example.com',
    webhook: 'https://other.example.com/webhooks/7',
  });
  await writeFile(join(records, '7.json'), other);
  const { code, err } = await server.person.run('listen');
  assert.deepEqual([code, /webhook of this listener was removed/.test(err)], [1, true], err);
  assert.deepEqual(await readdir(records), ['7.json']);
  assert.equal(await readFile(join(records, '7.json'), 'utf8'), other);
});

test('a login by code at a server that relays the address of another one is rejected before the code is shown', async () => {
  for (const name of ['verification_uri', 'verification_uri_complete'])
    for (const address of ['https://api.example.com/device', 'device', 'javascript:alert(1)']) {
      const { url, login } = await hostile((self) => ({
        '/device_authorization': {
          ...deviceCodeOf(self),
          [name]: address,
        },
      }));
      const { code, err } = await login();
      assert.equal(code, 1);
      assert.ok(err.startsWith(`halcyon: ${url} has the code entered at another address, ${address}: `), err);
    }
});

test('a login by code polls neither at once nor without a pause, whatever the server says', async () => {
  for (const interval of [1e15, 0.001]) {
    let polls = 0;
    const { person } = await hostile((self) => ({
      '/device_authorization': { ...deviceCodeOf(self), interval },
      '/token': (response) => {
        polls += 1;
        response.writeHead(400, { 'Content-Type': 'application/json' }).end('{"error":"authorization_pending"}');
      },
    }));
    const { err } = await person.run('login', '--device', '--timeout', '1');
    assert.match(err, /No response from the browser for 1 s/);
    assert.ok(polls <= 1, `${polls} polls`);
  }
});

const MIB = 1024 * 1024;

test('a response with more bytes than the documents of Halcyon have is not read to its end', async () => {
  const limits = { '/': 8, [METADATA]: 1, '/device_authorization': 1, '/token': 1 };
  for (const [path, limit] of Object.entries(limits)) {
    const { url, login } = await hostile(() => ({
      [path]: (response) => response.end(Buffer.alloc(limit * MIB + 1, ' ')),
    }));
    const { code, err } = await login();
    assert.equal(code, 1);
    assert.ok(err.includes(`halcyon: ${url}${path} sent more than ${limit} MiB: `), err);
  }
});

test('a response to halcyon publish has a limit as well', async () => {
  const { url, person } = await hostile(() => ({
    '/token': (response) => response.end(Buffer.alloc(8 * MIB + 1, ' ')),
  }));
  const file = join(person.folder, 'orders.jsonl');
  await mkdir(person.folder);
  await writeFile(file, '{"event":"transaction/created","resource":{"id":1}}');
  const publish = ['publish', file, '--url', url, '--store', '1', '--retry-for', '0'];
  const client = { HALCYON_CLIENT_ID: 'c', HALCYON_CLIENT_SECRET: 's' };
  const { code, err } = await runCommand(publish, { ...person.env, ...client });
  assert.equal(code, 3);
  assert.match(err, /sent more than 8 MiB/);
});

test('metadata that cannot be used are reported with the reason', async () => {
  const cases: [answer: Answer, reason: string][] = [
    [(response) => response.writeHead(404).end(), 'the server answers 404'],
    [(response) => response.writeHead(200, { 'Content-Type': 'application/json' }).end('{'), 'parsing error'],
    [{ issuer: 'https://other.example.com' }, 'discovered metadata issuer does not match'],
  ];
  for (const [answer, reason] of cases) {
    const { url, login } = await hostile(() => ({ [METADATA]: answer }));
    const { code, err } = await login();
    assert.equal(code, 1);
    assert.ok(err.startsWith(`halcyon: The metadata of ${url} cannot be used (${reason}`), err);
  }
});

test('links, stores and tokens that no Halcyon sends are reported, and no token is printed', async () => {
  const secret = 'a\r\nX-Injected: secret';
  const home = (self: string, links: Record<string, string>) => {
    const all = { self, authorize: `${self}/authorize`, store: `${self}/store`, ...links };
    return { _links: Object.fromEntries(Object.entries(all).map(([rel, href]) => [rel, { href }])) };
  };
  const cases: [answersOf: (self: string) => Answers, message: RegExp][] = [
    [
      (self) => ({ '/': home(self, { authorize: 'no address/authorize' }) }),
      /the authorization server of .*"no address"/,
    ],
    [(self) => ({ '/': home(self, { store: 'no address' }) }), /links to "no address", which is no address/],
    [() => ({ '/store': { id: {}, name: { toString: 1 }, domain: [] } }), /sent no store of Halcyon/],
    [() => ({ '/store': [1] }), /sent no store of Halcyon/],
    [() => ({ '/token': { ...TOKENS, access_token: secret } }), /sent no valid token response/],
    [() => ({ '/token': { ...TOKENS, refresh_token: 'secret\u2028' } }), /sent no valid token response/],
    [() => ({ '/token': { ...TOKENS, expires_in: 1e300 } }), /sent no valid token response/],
  ];
  // All at once, because the command waits before it asks for a token.
  const ended = await Promise.all(cases.map(async ([answersOf]) => (await hostile(answersOf)).login()));
  for (const [at, { code, err }] of ended.entries()) {
    assert.equal(code, 1);
    assert.match(err, cases[at]?.[1] ?? /$^/);
    assert.ok(!/internal error|secret/.test(err), err);
  }
});
