import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IsolationSlot } from './quarantine.ts';

/** How many of a hundred deliveries with this crash count are admitted at once. */
function admitted(crashCount: number): number {
  const slot = new IsolationSlot();
  return Array.from({ length: 100 }, (_, id) => slot.enter(id, crashCount)).filter(Boolean).length;
}

test('the higher the crash count, the fewer deliveries run together: 16, 4, 1', () => {
  assert.deepEqual([1, 2, 3, 4].map(admitted), [16, 4, 1, 1]);
});

test('a delivery inside limits those that may join it, too', () => {
  const slot = new IsolationSlot();
  assert.equal(slot.enter(1, 3), true);
  assert.equal(slot.enter(2, 1), false, 'a delivery with crash count three runs alone');
  slot.leave(1);
  assert.equal(slot.enter(2, 1), true);
  assert.equal(slot.enter(1, 3), false);
});

test('a delivery with crash count three runs alone until it leaves', () => {
  const slot = new IsolationSlot();
  slot.enter(1, 2);
  assert.equal(slot.exclusiveId, undefined);
  slot.leave(1);
  slot.enter(2, 3);
  assert.equal(slot.exclusiveId, 2);
  slot.leave(1);
  assert.equal(slot.exclusiveId, 2);
  slot.leave(2);
  assert.equal(slot.exclusiveId, undefined);
});

test('a delivery that leaves admits another one', () => {
  const slot = new IsolationSlot();
  for (let id = 0; id < 4; id += 1) slot.enter(id, 2);
  assert.equal(slot.enter(9, 2), false);
  assert.equal(slot.leave(0), true);
  assert.equal(slot.enter(9, 2), true);
  assert.equal(slot.leave(77), false, 'it was never inside');
});
