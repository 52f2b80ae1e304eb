import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cell } from './isolation-slot.ts';

/** How many of a hundred with so many deaths are let in at once. */
const letIn = (deaths: number): number => {
  const cell = new Cell();
  return Array.from({ length: 100 }, (_, id) => cell.enter(id, deaths)).filter(Boolean).length;
};

test('the more deaths, the less company: 16, 4, none', () => {
  assert.deepEqual([1, 2, 3, 4].map(letIn), [16, 4, 1, 1]);
});

test('whoever is inside keeps their company small, too', () => {
  const cell = new Cell();
  assert.equal(cell.enter(1, 3), true);
  assert.equal(cell.enter(2, 1), false, 'one with three deaths is alone');
  cell.leave(1);
  assert.equal(cell.enter(2, 1), true);
  assert.equal(cell.enter(1, 3), false);
});

test('one with three deaths is alone, until it leaves', () => {
  const cell = new Cell();
  cell.enter(1, 2);
  assert.equal(cell.alone, undefined);
  cell.leave(1);
  cell.enter(2, 3);
  assert.equal(cell.alone, 2);
  cell.leave(1);
  assert.equal(cell.alone, 2);
  cell.leave(2);
  assert.equal(cell.alone, undefined);
});

test('who leaves makes room', () => {
  const cell = new Cell();
  for (let id = 0; id < 4; id += 1) cell.enter(id, 2);
  assert.equal(cell.enter(9, 2), false);
  assert.equal(cell.leave(0), true);
  assert.equal(cell.enter(9, 2), true);
  assert.equal(cell.leave(77), false, 'it was never inside');
});
