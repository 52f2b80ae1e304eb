import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolverOf, startNameServer } from '../../../test/setup/name-server.ts';
import { BlockedAddress, createGuard, isAllowed, judgeAll, parseNetworks } from './guard.ts';

const none = parseNetworks([]);

const forbidden = [
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.7',
  '203.0.113.7',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '100.100.100.200',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:8.8.8.8',
  '::127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b:1::1',
  '100::1',
  '2001::1',
  '2001:db8::1',
  '2002:7f00:1::',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::5efe:7f00:1',
  'ff02::1',
  '3fff::1',
];

for (const address of forbidden) {
  test(`deliveries may not reach ${address}`, () => assert.equal(isAllowed(address, none), false));
}

for (const address of ['1.1.1.1', '8.8.8.8', '172.32.0.1', '192.169.0.1', '2606:4700::1111', '2a00:1450::1']) {
  test(`deliveries may reach ${address}`, () => assert.equal(isAllowed(address, none), true));
}

test('an allowed network opens that network and no other', () => {
  const allowed = parseNetworks(['127.0.0.0/8', '::1']);
  assert.deepEqual(
    ['127.0.0.1', '::1', '10.0.0.1', '::2'].map((address) => isAllowed(address, allowed)),
    [true, true, false, false],
  );
});

test('a setting that is no network is refused at the start', () => {
  assert.throws(() => createGuard(['127.0.0.0/8', 'localhost'], resolverOf()));
});

test('a url whose host is or resolves to a forbidden address is refused with the reason', async () => {
  const guard = createGuard([], resolverOf());
  for (const url of [
    'http://127.0.0.1/',
    'http://[::1]:80/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://localhost/',
  ]) {
    assert.match((await guard.judgeUrl(url)) ?? '', /deliveries may not reach/, url);
  }
});

test('a url whose name does not resolve is accepted, and so is an allowed one', async () => {
  const server = await startNameServer();
  server.say((name) => ({ code: name === 'dead.example.com' ? 'SERVFAIL' : 'NXDOMAIN' }));
  for (const host of ['no-such-host.invalid', 'dead.example.com'])
    assert.equal(await createGuard([], resolverOf(server)).judgeUrl(`http://${host}/`), null);
  assert.equal(await createGuard(['127.0.0.0/8', '::1'], resolverOf()).judgeUrl('http://localhost/'), null);
});

test('one forbidden address among several refuses the host', () => {
  const at = (...addresses: string[]) =>
    judgeAll(
      'example.com',
      addresses.map((address) => ({ address })),
      none,
    );
  assert.doesNotThrow(() => at('1.1.1.1', '2606:4700::1111'));
  assert.throws(() => at('1.1.1.1', '2606:4700::1111', '10.0.0.1'), BlockedAddress);
});

test('an address is not said to be at itself', async () => {
  const { judgeUrl } = createGuard([], resolverOf());
  assert.equal(await judgeUrl('http://10.0.0.1/'), 'deliveries may not reach 10.0.0.1');
  assert.equal(await judgeUrl('http://[::1]/'), 'deliveries may not reach ::1');
});
