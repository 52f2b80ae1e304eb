import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { dailyIdOf, dayOf, dayOfId, firstIdOfDay, idOf, parseId, shardOf, startOfDay } from './ids.ts';

const shard = fc.integer({ min: 0, max: 255 });

test('an id contains its shard', () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 2 ** 44 }), shard, (n, of) => shardOf(idOf(n, of)) === of));
});

test('a daily id contains its shard and its day, and lies in the range of its day', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 32_000 }), fc.integer({ min: 0, max: 2 ** 30 - 1 }), shard, (day, n, of) => {
      const id = dailyIdOf(day, n, of);
      assert.ok(Number.isSafeInteger(id));
      assert.equal(shardOf(id), of);
      assert.equal(dayOfId(id), day);
      assert.ok(id >= firstIdOfDay(day) && id < firstIdOfDay(day + 1));
    }),
  );
});

test('days are counted from 2020-01-01 UTC', () => {
  assert.equal(dayOf(new Date('2020-01-01T23:59:59Z')), 0);
  assert.equal(dayOf(new Date('2020-01-02T00:00:00Z')), 1);
  assert.equal(startOfDay(366).toISOString(), '2021-01-01T00:00:00.000Z');
});

test('an id in a URL has exactly one spelling', () => {
  assert.equal(parseId('9007199254740991'), 9_007_199_254_740_991);
  for (const text of ['0', '-1', '+1', '01', '1.0', '1e3', ' 1', '', '9007199254740992', 'abc']) {
    assert.equal(parseId(text), undefined, text);
  }
});
