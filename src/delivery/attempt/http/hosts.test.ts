import assert from 'node:assert/strict';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { passingClock } from '../../../../test/setup/clock.ts';
import { HostsFile, ownAddresses, parseHosts } from './hosts.ts';

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
