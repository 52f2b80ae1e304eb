import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './store-document.ts';

const shop: StoreDetails = {
  name: 'Shop',
  domain: 'shop.example.com',
  email: 'ada@example.com',
  timeZone: 'Europe/Berlin',
  subscriptionEvents: 'derived',
  secondFactor: 'optional',
  externalId: null,
};

const wrong: [string, Partial<StoreDetails>][] = [
  ['name', { name: '' }],
  ['name', { name: ' \n ' }],
  ['name', { name: '\u200b' }],
  ['name', { name: 'x'.repeat(256) }],
  ['domain', { domain: '' }],
  ['domain', { domain: 'https://shop.example.com' }],
  ['domain', { domain: '-shop.example.com' }],
  ['domain', { domain: 'shop..example.com' }],
  ['domain', { domain: `${'a'.repeat(64)}.example.com` }],
  ['domain', { domain: `${'a.'.repeat(126)}ab` }],
  ['email', { email: 'ada' }],
  ['email', { email: 'ada@' }],
  ['email', { email: 'a b@example.com' }],
  ['email', { email: `${'a'.repeat(250)}@b.com` }],
  ['time_zone', { timeZone: 'Mars/Olympus' }],
  ['time_zone', { timeZone: '+01:00' }],
  ['time_zone', { timeZone: '' }],
];
for (const [field, change] of wrong) {
  test(`a store with ${JSON.stringify(change).slice(0, 60)} is refused because of its ${field}`, () => {
    assert.deepEqual(
      storeFaults({ ...shop, ...change }).map((fault) => fault.field),
      [field],
    );
  });
}

test('a valid store has no fault, and a name is measured in code points', () => {
  assert.deepEqual(storeFaults(shop), []);
  assert.deepEqual(storeFaults({ ...shop, name: '😀'.repeat(255) }), []);
});

test('all faults of a store are reported at once', () => {
  assert.equal(storeFaults({ ...shop, name: '', domain: '', email: '', timeZone: '' }).length, 4);
});

test('a time zone is stored in the spelling of the IANA database', () => {
  assert.equal(readTimeZone('europe/berlin'), 'Europe/Berlin');
  assert.equal(readTimeZone('uS/eAsTeRn'), 'US/Eastern');
  assert.equal(readTimeZone('utc'), 'UTC');
});

for (const step of [1, 2, 3, 5, 32, 256]) {
  test(`ids in steps of ${step} fill the shards evenly`, () => {
    const filled = Array.from({ length: 256 }, () => 0);
    for (let i = 0; i < 25_600; i += 1) {
      const shard = shardOfNumber(1_000_000 + i * step);
      filled[shard] = (filled[shard] ?? 0) + 1;
    }
    assert.ok(Math.min(...filled) >= 80 && Math.max(...filled) <= 120, String(filled));
  });
}
