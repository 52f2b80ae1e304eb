import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IsolationSlot } from './quarantine.ts';

/** How many of a hundred with so many deaths are let in at once. */
function letIn(crashCount: number): number {
  const slot = new IsolationSlot();
  return Array.from({ length: 100 }, (_, id) => slot.enter(id, crashCount)).filter(Boolean).length;
}

test('the more deaths, the less company: 16, 4, none', () => {
  assert.deepEqual([1, 2, 3, 4].map(letIn), [16, 4, 1, 1]);
});

test('whoever is inside keeps their company small, too', () => {
  const slot = new IsolationSlot();
  assert.equal(slot.enter(1, 3), true);
  assert.equal(slot.enter(2, 1), false, 'one with three deaths is alone');
  slot.leave(1);
  assert.equal(slot.enter(2, 1), true);
  assert.equal(slot.enter(1, 3), false);
});

test('one with three deaths is alone, until it leaves', () => {
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

test('who leaves makes room', () => {
  const slot = new IsolationSlot();
  for (let id = 0; id < 4; id += 1) slot.enter(id, 2);
  assert.equal(slot.enter(9, 2), false);
  assert.equal(slot.leave(0), true);
  assert.equal(slot.enter(9, 2), true);
  assert.equal(slot.leave(77), false, 'it was never inside');
});
