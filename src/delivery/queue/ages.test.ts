import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ages } from './sender.ts';

/** The ticks at which each is due. */
function dueAt(ages: Ages<string>, ticks: number): Record<string, number> {
  const due: Record<string, number> = {};
  for (let tick = 1; tick <= ticks; tick += 1) for (const item of ages.tick()) due[item] = tick;
  return due;
}

test('an age is reached no earlier than due and at most two ticks later, round after round', () => {
  const ages = new Ages<string>(50, 1_000);
  for (let round = 0; round < 3; round += 1) {
    ages.add('at once', 0);
    ages.add('soon', 150);
    ages.add('odd', 151);
    ages.add('last', 1_000);
    assert.deepEqual(dueAt(ages, 30), { 'at once': 1, soon: 4, odd: 5, last: 21 });
  }
});

test('a pause of our own process counts as one tick, however long it was', () => {
  const ages = new Ages<string>(50, 1_000);
  ages.add('answered during the pause', 1_000);
  assert.deepEqual([...ages.tick()], []);
});

test('an ended attempt reaches no further age', () => {
  const ages = new Ages<string>(50, 1_000);
  ages.add('over', 100)?.delete('over');
  assert.deepEqual(dueAt(ages, 30), {});
});
