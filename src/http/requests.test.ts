import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAddresses } from './requests.ts';

test('of two paths that can match one address, one must be more general', () => {
  const addresses = createAddresses();
  const add = (path: string) => addresses.add({ path, allow: 'GET', cors: false });
  for (const path of ['/a/:x/:y', '/a/:x/c', '/a/b/c', '/a/b']) add(path);
  assert.throws(() => add('/a/b/:y'), /\/a\/b\/:y and \/a\/:x\/c can match one address/);
});
