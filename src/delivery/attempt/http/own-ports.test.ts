import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { resolverOf, startNameServer } from '../../../../test/setup/name-server.ts';
import { createGuard } from './guard.ts';
import { isOwn } from './own-ports.ts';

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
