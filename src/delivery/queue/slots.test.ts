import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { shareOf, Slots, type SlotUse } from './slots.ts';

const limits = {
  slots: 20,
  overdraftSlots: 10,
  slowSlotsPercent: 25,
  newSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
};

/** Starts as many as it may, up to 100. */
function fill(slots: Slots, speed: SlotUse['speed'], isRetry = false): SlotUse[] {
  const held: SlotUse[] = [];
  while (held.length < 100 && slots.mayStart(speed)) {
    const one = { speed, isRetry };
    slots.acquire(one);
    held.push(one);
  }
  return held;
}

test('slow lanes have a quarter, unproven ones half, proven ones what the slow ones cannot have', () => {
  assert.equal(fill(new Slots(limits), 'slow').length, 5);
  assert.equal(fill(new Slots(limits), 'new').length, 10);
  assert.equal(fill(new Slots(limits), 'fast').length, 15);
});

test('an exchange that turns slow makes room for a quick one, and takes it from the slow ones', () => {
  const slots = new Slots(limits);
  const [first] = fill(slots, 'fast');
  assert.ok(first !== undefined);
  slots.markSlow(first);
  assert.equal(slots.mayStart('fast'), true);
  assert.equal(fill(slots, 'slow').length, 4);
});

test('those that turn slow are in overdraft, up to its limit', () => {
  const slots = new Slots(limits);
  let turned = 0;
  for (let held = fill(slots, 'fast'); held.length > 0; held = fill(slots, 'fast')) {
    held.forEach((one) => slots.markSlow(one));
    turned += held.length;
  }
  assert.equal(turned, 30);
  assert.equal(slots.slowInFlight, 30);
  assert.equal(slots.mayStart('slow'), false);
});

test('unproven ones that turn slow leave the quick side to proven ones', () => {
  const slots = new Slots({ ...limits, overdraftSlots: 40 });
  for (let held = fill(slots, 'new'); held.length > 0; held = fill(slots, 'new')) {
    held.forEach((one) => slots.markSlow(one));
  }
  assert.equal(slots.slowInFlight, 45);
  assert.equal(fill(slots, 'fast').length, 15);
});

test('first attempts are owed a quarter of their side, repeated ones a tenth', () => {
  const slots = new Slots({ ...limits, slots: 40 });
  const owed = (isRetry: boolean): number => {
    let count = 0;
    for (; slots.isBelowReserve('fast', isRetry); count += 1) slots.acquire({ speed: 'fast', isRetry });
    return count;
  };
  assert.deepEqual([owed(false), owed(true)], [7, 3]);
  assert.equal(slots.isBelowReserve('slow', true), true, 'the slow ones are counted apart');
});

type Step = { what: 'start' | 'turn' | 'end'; speed: SlotUse['speed']; isRetry: boolean; which: number };

const anyStep: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('start', 'start', 'turn', 'end'),
  speed: fc.constantFrom('fast', 'new', 'slow'),
  isRetry: fc.boolean(),
  which: fc.nat(1_000),
});

test('whatever happens, no share is exceeded and nobody waits while there is room in his', () => {
  const property = (size: number, steps: Step[]) => {
    const slots = new Slots({ ...limits, slots: size });
    const slowLimit = shareOf(size, limits.slowSlotsPercent);
    const quickLimit = size - slowLimit;
    const held: SlotUse[] = [];
    for (const { what, speed, isRetry, which } of steps) {
      const one = held[which % Math.max(1, held.length)];
      const count = (wanted: SlotUse['speed']) => held.filter((each) => each.speed === wanted).length;
      const quick = count('fast') + count('new');
      if (what === 'start') {
        const room = {
          slow: count('slow') < slowLimit,
          fast: quick < quickLimit && held.length < size + limits.overdraftSlots,
          new: quick < quickLimit && count('new') < size / 2 && held.length < slowLimit + limits.overdraftSlots,
        };
        assert.equal(slots.mayStart(speed), room[speed]);
        if (!room[speed]) continue;
        const next = { speed, isRetry };
        slots.acquire(next);
        held.push(next);
      } else if (one !== undefined && what === 'turn') slots.markSlow(one);
      else if (one !== undefined) slots.release(...(held.splice(held.indexOf(one), 1) as [SlotUse]));
      assert.equal(slots.inFlight, held.length);
      assert.ok(held.length <= size + limits.overdraftSlots);
    }
    for (const one of held) slots.release(one);
    assert.deepEqual([slots.inFlight, slots.slowInFlight, slots.newInFlight], [0, 0, 0]);
  };
  const sizes = fc.constantFrom(4, 8, 20);
  fc.assert(fc.property(sizes, fc.array(anyStep, { maxLength: 200 }), property));
});
