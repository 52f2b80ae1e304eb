import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressPrefix } from '#core/address-prefix.ts';

const table: readonly (readonly [address: string, prefix: string])[] = [
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['0:0:0:0:0:ffff:c000:0201', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002::ffff', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
  ['1::2:3:4:5:192.0.2.1', '1:0:2:3::/64'],
  ['::1', '0:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['', ''],
  ['unknown', 'unknown'],
  ['192.0.2.1:443', '192.0.2.1:443'],
];

for (const [address, prefix] of table) {
  test(`the prefix of ${JSON.stringify(address)} is ${JSON.stringify(prefix)}`, () =>
    assert.equal(addressPrefix(address), prefix));
}
