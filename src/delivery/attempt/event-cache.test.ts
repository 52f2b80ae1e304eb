import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventCache } from './bodies.ts';
import type { EventRow } from '../delivery-sql.ts';

const eventOf = (id: number, characters = 2): EventRow => ({
  id,
  storeId: 256,
  type: 'customer',
  resourceId: '1',
  action: 'created',
  version: 1,
  nonce: 1,
  baseUrl: 'http://localhost',
  dateCreated: new Date(0),
  body: 'x'.repeat(characters),
  traceContext: null,
});

test('an event is evicted with its last delivery, and not before', () => {
  const cache = new EventCache(1_000_000);
  cache.add(eventOf(1));
  cache.retain(1);
  cache.retain(1);
  cache.release(1);
  assert.equal(cache.has(1), true);
  cache.release(1);
  assert.equal(cache.has(1), false);
});

test('above its byte limit the cache evicts the oldest events, in use or not, and some more', () => {
  const cache = new EventCache(20 * 4_512);
  for (let id = 1; id <= 21; id += 1) {
    cache.add(eventOf(id, 1_000));
    cache.retain(id);
  }
  assert.deepEqual(
    cache.ids(),
    Array.from({ length: 17 }, (_, index) => index + 5),
  );
});

test('an evicted event frees its bytes for others', () => {
  const cache = new EventCache(10_000);
  for (let id = 1; id <= 100; id += 1) {
    cache.add(eventOf(id, 1_000));
    cache.retain(id);
    if (id > 1) cache.release(id);
  }
  assert.deepEqual(cache.ids(), [1]);
});
