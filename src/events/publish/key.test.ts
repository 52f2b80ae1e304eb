import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysOf } from './key.ts';

function fingerprintsOf(secret: number, header: string | undefined): string[] {
  const event = { type: 'customer', action: 'created', resourceId: '7', modifiedAt: null, body: '{"id":7}' } as const;
  const asked = { header, isArray: false, fingerprintKeys: [Buffer.alloc(32, secret)] } as const;
  return keysOf([event], [header === undefined ? 'key' : undefined], asked).map(({ fingerprint }) =>
    fingerprint.toString('hex'),
  );
}

for (const [where, header] of [
  ['the header', 'key'],
  ['an event', undefined],
] as const) {
  test(`published content cannot be guessed from what is stored under the key of ${where}`, () => {
    assert.deepEqual(fingerprintsOf(1, header), fingerprintsOf(1, header));
    assert.notDeepEqual(fingerprintsOf(1, header), fingerprintsOf(2, header));
  });
}
