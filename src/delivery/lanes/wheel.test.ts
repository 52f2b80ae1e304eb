import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Wheel } from './wheel.ts';

test('an item is due once, within a second of its time and never before it', () => {
  const wheel = new Wheel<string>();
  wheel.add('a', 10_200);
  wheel.add('b', 12_000);
  wheel.add('never', Number.POSITIVE_INFINITY);
  assert.deepEqual([...wheel.due(10_199)], []);
  assert.deepEqual([...wheel.due(11_000)], ['a']);
  assert.deepEqual([...wheel.due(11_999)], []);
  wheel.add('c', 11_500);
  assert.deepEqual([...wheel.due(99_000)].toSorted(), ['b', 'c']);
  assert.deepEqual([...wheel.due(999_000)], []);
});
