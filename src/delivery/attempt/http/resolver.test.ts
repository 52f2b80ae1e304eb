import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { passingClock } from '../../../../test/setup/clock.ts';
import { resolverOf, startNameServer, type Said } from '../../../../test/setup/name-server.ts';
import { until } from '../../../../test/setup/until.ts';
import { HostsFile, ownAddresses, parseHosts } from './resolver.ts';

const four = { address: '192.0.2.1', family: 4 };
const six = { address: '2001:db8::1', family: 6 };
const both: Said = { addresses: [six.address, four.address] };
const failing = (code: string) => ({ code });

/** A server with the same answer for every name. */
async function saying(said: Said) {
  const server = await startNameServer();
  server.say(() => said);
  return server;
}

test('both families are queried at once, and IPv4 comes first', async () => {
  const server = await startNameServer();
  const held: string[] = [];
  server.say((_name, type) => {
    held.push(type);
    return both;
  });
  assert.deepEqual(await resolverOf(server)('shop.example.com'), [four, six]);
  assert.deepEqual(held.toSorted(), ['A', 'AAAA']);
});

test('concurrent look-ups of a name, in any letter case, are one query', async () => {
  const server = await saying(both);
  const resolve = resolverOf(server);
  const names = ['shop.example.com', 'Shop.Example.com', 'shop.example.com.', 'shop.example.com'];
  await Promise.all(names.map((name) => resolve(name)));
  assert.deepEqual(server.asked.toSorted(), ['A shop.example.com', 'AAAA shop.example.com']);
});

/** Returns after how many ms a name is queried again. */
async function keptMs(ttlSeconds: number): Promise<number> {
  const server = await saying({ addresses: [four.address], ttlSeconds });
  let nowMs = 0;
  const clock = { now: () => new Date(), monotonicMs: () => nowMs };
  const resolve = resolverOf(server, { lookupKeptMs: 3_000 }, { clock });
  while (server.asked.length <= 2) {
    await resolve('shop.example.com');
    nowMs += 500;
  }
  return nowMs - 500;
}

test('an answer is cached for its TTL, at least a second and at most the configured time', async () => {
  assert.equal(await keptMs(0), 1_000);
  assert.equal(await keptMs(2), 2_000);
  assert.equal(await keptMs(86_400), 3_000);
});

test('a negative answer is cached for a while too', async () => {
  const server = await saying({ code: 'SERVFAIL' });
  const clock = passingClock();
  const resolve = resolverOf(server, { failedLookupKeptMs: 10_000 }, { clock });
  await assert.rejects(resolve('dead.example.com'), failing('ESERVFAIL'));
  const packets = server.asked.length;
  clock.advance(9_000);
  await assert.rejects(resolve('dead.example.com'), failing('ESERVFAIL'));
  assert.equal(server.asked.length, packets);
  server.say(() => both);
  clock.advance(1_000);
  assert.deepEqual(await resolve('dead.example.com'), [four, six]);
});

const verdicts: readonly (readonly [what: string, a: Said, aaaa: Said, code: string])[] = [
  ['a name that does not exist', { code: 'NXDOMAIN' }, { code: 'NXDOMAIN' }, 'ENOTFOUND'],
  ['a name without addresses', {}, {}, 'ENODATA'],
  ['aliases without an address', { aliases: ['a.example.net'] }, { aliases: ['a.example.net'] }, 'ENODATA'],
  ['aliases without an address, in one family', { aliases: ['a.example.net'] }, {}, 'ENODATA'],
  ['a server that fails', { code: 'SERVFAIL' }, { code: 'SERVFAIL' }, 'ESERVFAIL'],
  ['a server that refuses', { code: 'REFUSED' }, { code: 'REFUSED' }, 'EREFUSED'],
  ['a server that is silent', null, null, 'ETIMEOUT'],
  ['no IPv4 address, and no server answers for IPv6', {}, { code: 'SERVFAIL' }, 'ESERVFAIL'],
  ['no IPv6 address, and no server answers for IPv4', null, {}, 'ETIMEOUT'],
  ['a name that does not exist, in one answer', { code: 'SERVFAIL' }, { code: 'NXDOMAIN' }, 'ENOTFOUND'],
];
for (const [what, a, aaaa, code] of verdicts) {
  test(`${what}: ${code}`, async () => {
    const server = await startNameServer();
    server.say((_name, type) => (type === 'A' ? a : aaaa));
    const isSilent = a === null || aaaa === null;
    const resolve = resolverOf(server, isSilent ? { lookupTimeoutMs: 200 } : {});
    await assert.rejects(resolve('shop.example.com'), failing(code));
  });
}

test('no server at all: ECONNREFUSED', () =>
  assert.rejects(resolverOf({ address: '127.0.0.1:1' })('shop.example.com'), failing('ECONNREFUSED')));

test('one family is enough if no server answers for the other', async () => {
  const server = await startNameServer();
  server.say((_name, type) => (type === 'A' ? both : null));
  // If the machine pauses for longer than the limit, the answer of the other family is late as well.
  const found = await until(
    () => resolverOf(server, { lookupTimeoutMs: 200 })('shop.example.com').catch(() => []),
    ({ length }) => length > 0,
  );
  assert.deepEqual(found, [four]);
});

test('the number of concurrent look-ups is limited, and the others follow', async (t) => {
  const server = await startNameServer();
  const resolve = resolverOf(server, { lookupsAtOnce: 2, lookupTimeoutMs: 300 });
  const names = ['a', 'b', 'c', 'd', 'e'].map((letter) => `${letter}.example.com`);
  const { promise: areAsked, resolve: asked } = Promise.withResolvers<void>();
  server.say(() => {
    if (server.asked.length === 4) asked();
    return null;
  });
  // The limit passes only by `tick`: it applies to the look-ups that have an answer, too.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const first = names.slice(0, 2).map((name) => assert.rejects(resolve(name), failing('ETIMEOUT')));
  await areAsked;
  server.say(() => both);
  const others = Promise.all(names.slice(2).map((name) => resolve(name)));
  // By the time another resolver has its answer, look-ups without a limit would have been sent.
  await resolverOf(server)('f.example.com');
  assert.deepEqual(
    new Set(server.asked.map((query) => query.split(' ')[1])),
    new Set([...names.slice(0, 2), 'f.example.com']),
  );
  t.mock.timers.tick(300);
  await Promise.all(first);
  // Each waits for those before it, so the last one starts after all.
  assert.equal((await others).length, 3);
  assert.equal(server.asked.length, 12);
});

test('the cache is bounded', async () => {
  const server = await saying(both);
  const resolve = resolverOf(server, { addressesKept: 4 });
  for (const name of ['a.example.com', 'b.example.com', 'c.example.com']) await resolve(name);
  await resolve('c.example.com');
  assert.equal(server.asked.length, 6);
  await resolve('a.example.com');
  assert.equal(server.asked.length, 8);
  const names = ['d', 'e', 'f', 'g', 'h'].map((letter) => `${letter}.example.com`);
  for (const found of await Promise.all(names.map((name) => resolve(name)))) assert.deepEqual(found, [four, six]);
});

const hosts = parseHosts(`
# a comment
127.0.0.1\tlocalhost
10.0.0.7  Inner.example.com inner # two names
::1 localhost
fd00::7 inner.example.com
fe80::1%lo0 localhost
not-an-address other
`);

test('a name has the addresses of all its lines, in any letter case', () => {
  assert.deepEqual(ownAddresses(hosts, 'inner.example.com'), [
    { address: '10.0.0.7', family: 4 },
    { address: 'fd00::7', family: 6 },
  ]);
  assert.deepEqual(ownAddresses(hosts, 'inner'), [{ address: '10.0.0.7', family: 4 }]);
  assert.deepEqual(
    ownAddresses(hosts, 'localhost')?.map(({ address }) => address),
    ['127.0.0.1', '::1'],
  );
});

test('a name without a line is looked up by DNS, except localhost', () => {
  for (const name of ['other', 'example.com', 'localhost.example.com', 'notlocalhost'])
    assert.equal(ownAddresses(hosts, name), undefined, name);
  const none = parseHosts('');
  for (const name of ['localhost', 'shop.localhost'])
    assert.deepEqual(
      ownAddresses(none, name)?.map(({ address }) => address),
      ['127.0.0.1', '::1'],
    );
});

test('a change of the file takes effect after 5 s, and a missing file is empty', async (context) => {
  const directory = await mkdtemp(join(tmpdir(), 'hosts-'));
  context.after(() => rm(directory, { recursive: true }));
  const path = join(directory, 'hosts');
  const clock = passingClock();
  const file = new HostsFile(path, clock);
  const addressOf = async () => (await file.current()).get('inner')?.[0]?.address;
  assert.equal(await addressOf(), undefined);
  const write = async (address: string, second: number) => {
    await writeFile(path, `${address} inner\n`);
    await utimes(path, second, second);
    clock.advance(5_000);
  };
  await write('10.0.0.7', 1);
  assert.equal(await addressOf(), '10.0.0.7');
  await write('10.0.0.8', 2);
  assert.equal(await addressOf(), '10.0.0.8');
});
