import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scaleOf } from './charts.ts';

const table: readonly (readonly [what: string, values: readonly number[], ticks: readonly number[]])[] = [
  ['nothing', [], [0, 1]],
  ['nothing but zeros', [0, 0], [0, 1]],
  ['one value', [90], [0, 50, 100]],
  ['equal values', [300, 300, 300], [0, 100, 200, 300]],
  ['values with cents', [19.99, 27.5], [0, 10, 20, 30]],
  ['small values', [0.1, 0.3], [0, 0.1, 0.2, 0.3]],
  ['values that fall below zero', [-50, 100], [-50, 0, 50, 100]],
  ['values below zero', [-3, -1], [-3, -2, -1, 0]],
  ['a range beyond the largest number', [-1.7e308, 1.7e308], [0, 1]],
  ['huge values', [1e300, 2.5e300], [0, 1e300, 2e300, 3e300]],
];

test('a scale of whole numbers has no lines at halves', () => {
  assert.deepEqual(scaleOf([1], 1).ticks, [0, 1]);
  assert.deepEqual(scaleOf([7], 1).ticks, [0, 5, 10]);
  assert.deepEqual(scaleOf([70], 1).ticks, [0, 25, 50, 75]);
});

for (const [what, values, ticks] of table) {
  test(`the lines across ${what} have round numbers and span all of it`, () => {
    const scale = scaleOf(values);
    assert.deepEqual(scale.ticks, ticks);
    for (const value of values) assert.ok(scale.shareOf(value) >= 0 && scale.shareOf(value) <= 1 + 1e-9, String(value));
  });
}
