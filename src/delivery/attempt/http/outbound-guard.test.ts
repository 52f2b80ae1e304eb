import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkInterfaces } from 'node:os';
import { resolverOf, startNameServer } from '../../../../test/setup/name-server.ts';
import { createGuard, isOwn, isPublic, Networks } from './outbound-guard.ts';

test('a setting that is no network is refused at the start', () => {
  assert.throws(() => createGuard({ allowed: ['127.0.0.0/8', 'localhost'] }, resolverOf()));
});

test('a URL whose name does not resolve is accepted, and so is an allowed one', async () => {
  const server = await startNameServer();
  server.say((name) => ({ code: name === 'dead.example.com' ? 'SERVFAIL' : 'NXDOMAIN' }));
  for (const host of ['no-such-host.invalid', 'dead.example.com'])
    assert.equal(await createGuard({}, resolverOf(server)).checkUrl(`http://${host}/`), null);
  const { checkUrl } = createGuard({ allowed: ['127.0.0.0/8', '::1'] }, resolverOf());
  assert.equal(await checkUrl('http://localhost/'), null);
});

test('one forbidden address among several blocks the host', async () => {
  const server = await startNameServer();
  const { checkUrl } = createGuard({}, resolverOf(server));
  const at = (name: string, ...addresses: string[]) => {
    server.say(() => ({ addresses }));
    return checkUrl(`http://${name}/`);
  };
  assert.equal(await at('good.example.com', '1.1.1.1', '2606:4700::1111'), null);
  assert.match((await at('bad.example.com', '1.1.1.1', '2606:4700::1111', '10.0.0.1')) ?? '', /may not reach/);
});

test('the error for a name of the operator’s network does not reveal its address', async () => {
  const server = await startNameServer();
  server.say(() => ({ addresses: ['10.1.2.3'] }));
  const { checkUrl } = createGuard({}, resolverOf(server));
  assert.match((await checkUrl('http://intranet.example.com/')) ?? '', /^\D*intranet\.example\.com\D*not public$/);
  assert.match((await checkUrl('http://10.0.0.1/')) ?? '', / 10\.0\.0\.1$/);
  assert.match((await checkUrl('http://[::1]/')) ?? '', / ::1$/);
});

const ofMachine = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;

/** Where a listener is on port 8080, and which addresses with that port reach it and which do not. */
const table: readonly (readonly [host: string, own: readonly string[], others: readonly string[]])[] = [
  ['127.0.0.1', ['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1', '::ffff:7f00:1'], ['127.0.0.2', '::1', '10.0.0.1']],
  ['::1', ['::1', '::'], ['127.0.0.1', '::2']],
  ['localhost', ['127.0.0.1', '127.9.9.9', '::1', '0.0.0.0'], ['10.0.0.1', '1.1.1.1']],
  ['10.0.0.5', ['10.0.0.5', '::ffff:10.0.0.5'], ['10.0.0.6', '127.0.0.1', '0.0.0.0']],
  ['1.1.1.1', ['1.1.1.1'], ['1.1.1.2']],
  ['0.0.0.0', ['127.0.0.1', '127.9.9.9', '::1', '0.0.0.0', ofMachine ?? '127.0.0.1'], ['192.0.2.1', '1.1.1.1']],
  ['::', ['127.0.0.1', '::1', ofMachine ?? '127.0.0.1'], ['192.0.2.1', '2600::1']],
  // Addresses of unknown owner.
  ['db.example.com', ['10.0.0.1', '127.0.0.1', 'fd00::1'], ['1.1.1.1', '2600::1']],
];

for (const [host, own, others] of table) {
  test(`a listener at ${host} is blocked there, and on that port only`, () => {
    const isAt = (address: string, port: number) => isOwn([{ host, port: 8080 }], address, port);
    for (const address of own) assert.deepEqual([address, isAt(address, 8080)], [address, true]);
    for (const address of others) assert.deepEqual([address, isAt(address, 8080)], [address, false]);
    for (const address of [...own, ...others]) assert.equal(isAt(address, 8081), false);
  });
}

test('an allowed network does not open our own ports in it, by number or by name', async () => {
  const server = await startNameServer();
  server.say(() => ({ addresses: ['10.0.0.5'] }));
  const own = [
    { host: '10.0.0.5', port: 5432 },
    { host: '10.0.0.5', port: 443 },
  ];
  const { checkUrl } = createGuard({ allowed: ['10.0.0.0/8'], own }, resolverOf(server));
  const why = (host: string, port = 5432) => new RegExp(` ${port} .*${host}.* own$`);
  assert.match((await checkUrl('http://10.0.0.5:5432/')) ?? '', why('10.0.0.5'));
  assert.match((await checkUrl('http://shop.example.com:5432/')) ?? '', why('shop.example.com'));
  assert.match((await checkUrl('https://10.0.0.5/')) ?? '', why('10.0.0.5', 443));
  assert.equal(await checkUrl('http://10.0.0.5/'), null);
  assert.equal(await checkUrl('http://10.0.0.6:5432/'), null);
});

/** The first and the last address of each network, by its purpose. */
const forbidden: Readonly<Record<string, readonly string[]>> = {
  'this network': ['0.0.0.0', '0.255.255.255'],
  private: ['10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.0.0', '192.168.255.255'],
  'carrier-grade NAT': ['100.64.0.0', '100.127.255.255'],
  loopback: ['127.0.0.0', '127.0.0.1', '127.255.255.255', '::1'],
  'link-local': ['169.254.0.0', '169.254.255.255', 'fe80::', 'febf:ffff::1'],
  'metadata of clouds': ['169.254.169.254', '168.63.129.16', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254'],
  'protocol assignments': ['192.0.0.0', '192.0.0.255', '2001::1', '2001:1ff:ffff::1'],
  documentation: ['192.0.2.0', '192.0.2.255', '198.51.100.0', '198.51.100.255', '203.0.113.0', '203.0.113.255'],
  'documentation, IPv6': ['2001:db8::', '2001:db8:ffff::1', '3fff::', '3fff:fff:ffff::1'],
  benchmarks: ['198.18.0.0', '198.19.255.255', '2001:2::1'],
  'AS112, AMT': ['192.31.196.1', '192.52.193.1', '192.175.48.1', '2620:4f:8000::1', '2001:4:112::1', '2001:3::1'],
  'the old 6to4 relays': ['192.88.99.0', '192.88.99.255'],
  multicast: ['224.0.0.0', '239.255.255.255', 'ff02::1', 'ff0e::1'],
  reserved: ['240.0.0.0', '255.255.255.254', '255.255.255.255', '4000::1', 'e000::1', '200::1'],
  unspecified: ['::'],
  'IPv4-mapped': ['::ffff:127.0.0.1', '::ffff:8.8.8.8', '::ffff:808:808'],
  'IPv4-compatible': ['::127.0.0.1', '::8.8.8.8'],
  SIIT: ['::ffff:0:127.0.0.1', '::ffff:0:808:808'],
  NAT64: ['64:ff9b::7f00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1', '64:ff9b:1:ffff::8.8.8.8'],
  '6to4': ['2002::', '2002:7f00:1::', '2002:808:808::1', '2002:ffff:ffff::1'],
  Teredo: ['2001::', '2001:0:5ef5:79fb::1', '2001:0:ffff:ffff::1'],
  ISATAP: ['fe80::5efe:7f00:1', '2600:1::5efe:a00:1', '2600:1:2:3:0:5efe:10.0.0.1', '2a00::200:5efe:808:808'],
  'discard, SRv6': ['100::1', '100:0:0:1::1', '5f00::1'],
  'unique local, site-local': ['fc00::', 'fdff:ffff::1', 'fec0::1'],
};

for (const [what, addresses] of Object.entries(forbidden)) {
  test(`not public: ${what}`, () => {
    for (const address of addresses) assert.equal(isPublic(address), false, address);
  });
}

test('public: the adjacent addresses', () => {
  const beside = [
    ['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
    ['168.63.129.15', '168.63.129.17', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0'],
    ['191.255.255.255', '192.0.1.0', '192.0.3.0', '192.88.98.255', '192.88.100.0', '192.167.255.255', '192.169.0.0'],
    ['198.17.255.255', '198.20.0.0', '198.51.99.255', '203.0.112.255', '203.0.114.0', '223.255.255.255'],
    ['2000::1', '2001:200::1', '2001:db7::1', '2001:db9::1', '2003::1', '2606:4700::1111', '2a00:1450::1'],
    ['2600::5efd:a00:1', '2600::1:5efe:a00:1', '2600:5efe::1', '2600:1:2:3:4:5:5efe:1', '3ffe:ffff::1'],
  ].flat();
  for (const address of beside) assert.equal(isPublic(address), true, address);
});

test('an allowed network contains its own addresses only, of its own family only', () => {
  const networks = new Networks(['127.0.0.0/8', '::1', 'fd00::/8']);
  const within = (...addresses: string[]) => addresses.filter((address) => networks.has(address));
  const others = ['126.255.255.255', '128.0.0.0', '::2', 'fc00::1', '::ffff:127.0.0.1'];
  const own = ['127.0.0.0', '127.255.255.255', '::1', 'fd00::1', 'fdff::'];
  assert.deepEqual(within(...own, ...others), own);
  for (const all of ['::/0', '::ffff:0:0/96']) assert.equal(new Networks([all]).has('10.0.0.1'), false, all);
  assert.equal(new Networks(['0.0.0.0/0']).has('::ffff:10.0.0.1'), false);
});
