/** The tables of settings, compared with the settings that the code reads. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readConfig } from '#config/config.ts';
import { fileVariable, type Env } from '#config/env.ts';
import { SETTING_GROUPS } from '#config/settings/settings.ts';
import { checkSettings } from '#cli/doctor/settings-check.ts';
import { resolveTarget } from '#cli/publish/publish-requests.ts';
import { readAddress } from '#cli/relay/relay-command.ts';
import { serverOf } from '#cli/session/api-session.ts';
import { HANDBOOK, withSettings } from '../scripts/settings-table.ts';
import * as fc from 'fast-check';

const folder = await mkdtemp(join(tmpdir(), 'halcyon-secrets-'));
after(() => rm(folder, { recursive: true }));

const EMBEDDED: Env = {};
const WITH_DATABASE: Env = { DATABASE_URL: 'postgres://localhost/halcyon', HALCYON_SECRET_KEY: '0'.repeat(64) };
const WITH_MAIL: Env = { SMTP_URL: 'smtp://localhost', MAIL_FROM: 'halcyon@example.com' };

const settings = SETTING_GROUPS.flatMap(([, group]) => Object.entries(group));

/** The worker's id is random in each process. */
function read(env: Env) {
  const config = readConfig(env, '/');
  return { ...config, delivery: { ...config.delivery, workerId: 0 } };
}

async function namesReadFrom(env: Env, readFrom: (env: Env) => unknown): Promise<string[]> {
  const names: string[] = [];
  await readFrom(new Proxy(env, { get: (target, name: string) => (names.push(name), target[name]) }));
  return names;
}

/** The settings with which commands call servers. */
const PLATFORM: Env = { HALCYON_CLIENT_ID: 'id', HALCYON_CLIENT_SECRET: 'secret' };

test('docs/operating.md has the settings as described in the code (node scripts/settings-table.ts writes them)', async () => {
  const page = await readFile(HANDBOOK, 'utf8');
  assert.equal(page, withSettings(page));
});

test('each setting that is read is described, once, and no other', async () => {
  const names = await Promise.all([
    ...[EMBEDDED, WITH_DATABASE, WITH_MAIL].map((each) => namesReadFrom(each, (env) => readConfig(env, '/'))),
    namesReadFrom({}, (env) => serverOf({}, { env }, [])),
    namesReadFrom({}, (env) => readAddress({}, { env, cwd: '/', warn: () => {} })),
    namesReadFrom(PLATFORM, (env) => resolveTarget({ store: 1 }, { env, cwd: '/' }, readConfig({}, '/'))),
  ]);
  const isRead = new Set([...names.flat(), 'NODE_EXTRA_CA_CERTS']);
  const variables = settings.flatMap(([name, { isSecret }]) => (isSecret ? [name, fileVariable(name)] : [name]));
  assert.deepEqual(variables.toSorted(), [...isRead].toSorted());
});

test('an empty variable is one that is not set', () => {
  for (const [name, setting] of settings)
    assert.deepEqual(setting.read({ [name]: '' }, name), setting.read({}, name), name);
});

test('a description fits into one cell of a table', () => {
  for (const [name, { defaultText, allowed, meaning }] of settings)
    for (const cell of [defaultText, allowed, meaning]) assert.match(cell, /^[^|\n]+$/, name);
});

const ticked = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);

/** The default values stated by the tables; a setting with `as` has the default of another one. */
const defaults = settings.flatMap(([name, { defaultText }]): [env: Env, name: string, value: string][] => {
  const [first, second] = ticked(defaultText).map((value) => value.replace('PORT', String(read(EMBEDDED).port)));
  if (defaultText === 'off') return [[EMBEDDED, name, '0']];
  if (defaultText === 'as `BASE_URL`') return [[EMBEDDED, name, read(EMBEDDED).baseUrl]];
  if (first === undefined || defaultText.startsWith('as ')) return [];
  if (second === undefined) return [[EMBEDDED, name, first]];
  return [
    [WITH_DATABASE, name, first],
    [EMBEDDED, name, second],
  ];
});

test('the default of a setting is that of its table', () => {
  assert.ok(defaults.length > settings.length / 2);
  for (const [env, name, value] of defaults) assert.deepEqual(read({ ...env, [name]: value }), read(env), name);
});

test('providers that cannot work are refused, without their secrets in the message', () => {
  const secret = 'a-secret-of-the-provider';
  const google = { name: 'Google', issuer: 'https://accounts.google.com', client_id: 'id', client_secret: secret };
  const refused: [text: string, reason: RegExp][] = [
    [`[{"client_secret": "${secret}" oops`, /not JSON/],
    [JSON.stringify(google), /array/],
    [JSON.stringify([{ ...google, name: 'Sign in/' }]), /name/],
    [JSON.stringify([{ ...google, secret }]), /\/0/],
    [JSON.stringify([{ ...google, issuer: 'http://accounts.google.com' }]), /https/],
    [JSON.stringify([{ ...google, creates_accounts: true }]), /domains/],
    [JSON.stringify([google, { ...google, issuer: 'https://other.example' }]), /two providers/],
    [JSON.stringify([google, { ...google, name: 'Other' }]), /same issuer/],
  ];
  for (const [text, reason] of refused)
    assert.throws(
      () => read({ OPENID_PROVIDERS: text }),
      ({ message }: Error) =>
        reason.test(message) && !message.includes(secret) && message.startsWith('OPENID_PROVIDERS'),
      text,
    );
  const { openIdProviders } = read({ OPENID_PROVIDERS: JSON.stringify([google]) }).accounts;
  assert.deepEqual(openIdProviders[0]?.domains, []);
});

test('a proxy that is no address is refused, without its password in the message', () => {
  const secret = 'a-secret-of-the-proxy';
  const refused = ['proxy.example.com:3128', `https://u:${secret}@proxy:3128`, `http://u:${secret}@proxy:3128/path`];
  for (const text of refused)
    assert.throws(
      () => read({ OUTBOUND_PROXY: text }),
      ({ message }: Error) => /^OUTBOUND_PROXY .*http:\/\//.test(message) && !message.includes(secret),
      text,
    );
  const { outboundProxy } = read({ OUTBOUND_PROXY: 'http://[fd00::1]:3128' }).delivery;
  assert.deepEqual(outboundProxy, { host: 'fd00::1', port: 3_128, authorization: null });
});

const TYPED: Readonly<Record<string, string>> = {
  'https://api.example.com': 'https://api.example.com',
  'https://api.example.com/': 'https://api.example.com',
  'https://api.example.com//': 'https://api.example.com',
  'https://api.example.com:443': 'https://api.example.com',
  'http://api.example.com:8080/': 'http://api.example.com:8080',
  'https://API.Example.COM/Shop/Api': 'https://api.example.com/Shop/Api',
  'HTTPS://api.example.com/shop/api/': 'https://api.example.com/shop/api',
  'https://api.example.com/shop/../api': 'https://api.example.com/api',
  'http://ключ.example': 'http://xn--j1ac0b1a.example',
  'http://bücher.example/api/': 'http://xn--bcher-kva.example/api',
  'http://BÜCHER.example': 'http://xn--bcher-kva.example',
  'http://[2001:DB8::1]:8080': 'http://[2001:db8::1]:8080',
  'http://127.1': 'http://127.0.0.1',
};

const segment = fc.string({ unit: fc.constantFrom('a', 'z', 'A', 'Z', '0', '9', '_', '.', '~', '-') });
/** `webUrl` of fast-check makes any characters for its path, which it prepares for 1.1 s. */
const plainUrl = fc
  .tuple(fc.constantFrom('http', 'https'), fc.domain(), fc.array(segment))
  .map(([scheme, host, path]) => [`${scheme}://${host}`, ...path].join('/'));

test('BASE_URL and AUTH_URL are used as they are parsed, without a slash at their end', () => {
  for (const [typed, used] of Object.entries(TYPED)) {
    const { baseUrl, authUrl } = read({ BASE_URL: typed, AUTH_URL: typed });
    assert.deepEqual([baseUrl, authUrl], [used, used], typed);
  }
  fc.assert(
    fc.property(plainUrl, fc.constantFrom('', '/', '//'), (url, end) => {
      const { baseUrl } = read({ BASE_URL: url + end });
      assert.match(baseUrl, /^https?:\/\/[\x21-\x7e]+[^/]$/);
      assert.equal(read({ BASE_URL: baseUrl }).baseUrl, baseUrl);
      assert.equal(new URL(`${baseUrl}/`).href, new URL(`${new URL(url).href.replace(/\/+$/, '')}/`).href);
    }),
  );
});

const SECRET = 'a-secret-of-the-url';
/** By setting: a URL with a place for something in its user, its password and its path. */
const URLS: Readonly<Record<string, (part: string) => string>> = {
  BASE_URL: (part) => `https://api.example.com/${part}`,
  AUTH_URL: (part) => `https://api.example.com/${part}`,
  DATABASE_URL: (part) => `postgres://u${part}:${SECRET}${part}@db.example/halcyon${part}`,
  DATABASE_DIRECT_URL: (part) => `postgres://u:${SECRET}${part}@db.example/halcyon`,
  SHARD_DATABASES: (part) => `0-255=postgres://u:${SECRET}${part}@db.example/halcyon`,
  SMTP_URL: (part) => `smtps://u:${SECRET}${part}@mail.example`,
  OUTBOUND_PROXY: (part) => `http://u${part}:${SECRET}@proxy.example:3128`,
};

const KEYS = { HALCYON_SECRET_KEY: '1'.repeat(64), HALCYON_SECRET_KEY_OTHER: '2'.repeat(64) };
/** A value of each secret setting. */
const SECRETS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(URLS).map(([name, urlWith]) => [name, urlWith('')])),
  ...KEYS,
  HALCYON_CLIENT_SECRET: SECRET,
  HALCYON_RELAY_FROM: `mysql://shop:${SECRET}@db.example/shop`,
  OPENID_PROVIDERS: JSON.stringify([
    { name: 'Google', issuer: 'https://accounts.google.com', client_id: 'id', client_secret: SECRET },
  ]),
};
const secretSettings = settings.filter(([, { isSecret }]) => isSecret);

async function fileWith(content: string): Promise<string> {
  const path = join(folder, randomUUID());
  await writeFile(path, content);
  return path;
}

for (const [name, { read: readOne }] of secretSettings) {
  const variable = fileVariable(name);
  const value = SECRETS[name] ?? '';

  test(`${name} may be in a file, which halcyon doctor names without its content`, async () => {
    const expected = readOne({ [name]: value }, name);
    for (const end of ['', '\n', '\r\n'])
      assert.deepEqual(readOne({ [variable]: await fileWith(value + end), [name]: '' }, name), expected);
    const env = { ...WITH_DATABASE, ...WITH_MAIL, [name]: undefined, [variable]: await fileWith(`${value}\n`) };
    const { findings } = await checkSettings(env, '/');
    assert.deepEqual(
      findings.map(({ state }) => state),
      ['ok'],
    );
    assert.match(findings[0]?.message ?? '', new RegExp(`\\b${variable}\\b`));
    assert.ok(!JSON.stringify(findings).includes(value));
  });

  test(`${name} in a file that cannot be used is refused, with the name of the variable and of the file`, async () => {
    const wrong = {
      missing: join(folder, 'missing'),
      'a folder': folder,
      'an endless device': '/dev/zero',
      empty: await fileWith('\n'),
      'too large': await fileWith(value.padEnd(64 * 1024 + 1)),
    };
    for (const [what, path] of Object.entries(wrong)) {
      const isRight = (message: string) => message.startsWith(`${variable} is "${path}": `) && !message.includes(value);
      assert.throws(
        () => readOne({ [variable]: path }, name),
        ({ message }: Error) => isRight(message),
        what,
      );
    }
    // The secret itself in the place of the path, and a value in both variables.
    for (const env of [{ [variable]: value }, { [variable]: await fileWith(value), [name]: value }])
      assert.throws(
        () => readOne(env, name),
        ({ message }: Error) => message.includes(variable) && !message.includes(value),
      );
  });
}

test('the commands for a platform read secrets from files', async () => {
  const files = {
    HALCYON_CLIENT_SECRET_FILE: await fileWith(`${SECRET}\n`),
    HALCYON_RELAY_FROM_FILE: await fileWith('mysql://shop@db.example/shop\n'),
  };
  const env = { HALCYON_CLIENT_ID: 'id', ...files };
  assert.equal((await resolveTarget({ store: 1 }, { env, cwd: '/' }, readConfig({}, '/'))).clientSecret, SECRET);
  assert.equal(await readAddress({}, { env, cwd: '/', warn: () => {} }), 'mysql://shop@db.example/shop');
});

test('a URL that cannot be decoded is refused by each setting, also by halcyon doctor, and its secret is not shown', async () => {
  for (const [name, urlWith] of Object.entries(URLS)) {
    for (const part of ['%', '%2', '%zz', '100%', '%ff', '%c3%28', '%ed%a0%80']) {
      const env = { ...WITH_DATABASE, ...WITH_MAIL, [name]: urlWith(part) };
      const isRight = (message: string) => message.startsWith(`${name} has `) && !message.includes(SECRET);
      assert.throws(
        () => read(env),
        ({ message }: Error) => isRight(message) && /%25|letters/.test(message),
        urlWith(part),
      );
      const { findings } = await checkSettings(env, '/');
      assert.deepEqual(
        findings.map(({ state }) => state),
        ['fail'],
        urlWith(part),
      );
      assert.ok(isRight(findings[0]?.message ?? ''));
    }
    for (const wrong of ['ftp:', 'x', '://']) {
      const env = { ...WITH_DATABASE, ...WITH_MAIL, [name]: wrong };
      assert.throws(
        () => read(env),
        ({ message }: Error) => message.startsWith(name),
        `${name} ${wrong}`,
      );
    }
  }
  const { mail, delivery } = read({
    ...WITH_MAIL,
    SMTP_URL: 'smtp://a%40b:100%25@[::1]',
    OUTBOUND_PROXY: 'http://u:100%25@proxy',
  });
  assert.equal(mail?.url, 'smtp://a%40b:100%25@[::1]');
  assert.equal(delivery.outboundProxy?.authorization, `Basic ${Buffer.from('u:100%').toString('base64')}`);
});

test('an address with more than an origin and a plain path is refused', () => {
  for (const part of ['?a', '#a', 'a b', 'ü', '%20', '%2F', ':id', '*', 'a;b', '{x}'])
    for (const name of ['BASE_URL', 'AUTH_URL'])
      assert.throws(
        () => read({ [name]: `https://api.example.com/${part}` }),
        { message: new RegExp(`^${name} has`) },
        part,
      );
  assert.throws(() => read({ BASE_URL: 'https://u:p@api.example.com' }), { message: /^BASE_URL has/ });
});

test('a value outside the stated range is refused', () => {
  const ranges = settings.flatMap(([name, { allowed }]) => {
    const [, min, max] = /^([\d,]+)–([\d,]+)$/.exec(allowed) ?? [];
    return min === undefined || max === undefined ? [] : [{ name, limits: [min, max] as const }];
  });
  assert.ok(ranges.length > 10);
  for (const { name, limits } of ranges) {
    const [min, max] = limits.map((text) => Number(text.replaceAll(',', ''))) as [number, number];
    for (const value of [min, max]) assert.doesNotThrow(() => read({ [name]: String(value) }), name);
    for (const value of [min - 1, max + 1])
      assert.throws(() => read({ [name]: String(value) }), new RegExp(`^Error: ${name} is`));
  }
});

test('a stop waits for exchanges as configured, and the process does not end before', () => {
  const [short, long] = ['0', '30000'].map((DELIVERY_DRAIN_MS) => readConfig({ DELIVERY_DRAIN_MS }, '/').stopping);
  assert.deepEqual([short?.exchangesMs, long?.exchangesMs], [0, 30_000]);
  assert.equal((long?.allMs ?? 0) - (short?.allMs ?? 0), 30_000);
});

test('there is a process for each core, but a PostgreSQL on this machine gets a core of several', () => {
  const cores = availableParallelism();
  const [all, others] = [Math.min(8, cores), Math.min(8, Math.max(1, cores - 1))];
  const processesOf = (env: Env) => readConfig({ ...WITH_DATABASE, ...env }, '/').processes;
  assert.equal(readConfig(EMBEDDED, '/').processes, others);
  for (const here of ['', '127.0.0.1', '127.1.2.3:6000', 'localhost', 'LOCALHOST', '[::1]', 'localhost:1,127.0.0.1:2'])
    assert.equal(processesOf({ DATABASE_URL: `postgres://${here}/halcyon` }), others, here);
  for (const elsewhere of ['db.example', '10.0.0.1', '[2001:db8::1]', 'localhost.example', 'localhost:1,db.example:2'])
    assert.equal(processesOf({ DATABASE_URL: `postgres://${elsewhere}/halcyon` }), all, elsewhere);
  const [socket, remote] = ['postgres:///halcyon?host=/run/postgresql', 'postgres://db.example/halcyon'];
  assert.equal(processesOf({ DATABASE_URL: socket }), others);
  assert.equal(processesOf({ DATABASE_URL: 'postgres:///halcyon', PGHOST: 'db.example' }), all);
  // The first leads to PgBouncer.
  assert.equal(processesOf({ DATABASE_URL: 'postgres://localhost:6432/halcyon', DATABASE_DIRECT_URL: remote }), all);
  assert.equal(readConfig({ PROCESSES: '3' }, '/').processes, 3);
});
