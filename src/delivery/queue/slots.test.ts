import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { shareOf, Slots, type Held } from './slots.ts';

const limits = {
  slots: 20,
  overdraftSlots: 10,
  slowSlotsPercent: 25,
  unprovenSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
};

/** Starts as many as it may, up to 100. */
const fill = (slots: Slots, share: Held['share'], isRetry = false): Held[] => {
  const held: Held[] = [];
  while (held.length < 100 && slots.mayStart(share)) {
    const one = { share, isRetry };
    slots.start(one);
    held.push(one);
  }
  return held;
};

test('slow lanes have a quarter, unproven ones half, proven ones what the slow ones cannot have', () => {
  assert.equal(fill(new Slots(limits), 'slow').length, 5);
  assert.equal(fill(new Slots(limits), 'unproven').length, 10);
  assert.equal(fill(new Slots(limits), 'proven').length, 15);
});

test('an exchange that turns slow makes room for a quick one, and takes it from the slow ones', () => {
  const slots = new Slots(limits);
  const [first] = fill(slots, 'proven');
  assert.ok(first !== undefined);
  slots.turnSlow(first);
  assert.equal(slots.mayStart('proven'), true);
  assert.equal(fill(slots, 'slow').length, 4);
});

test('those that turn slow are in overdraft, up to its limit', () => {
  const slots = new Slots(limits);
  let turned = 0;
  for (let held = fill(slots, 'proven'); held.length > 0; held = fill(slots, 'proven')) {
    held.forEach((one) => slots.turnSlow(one));
    turned += held.length;
  }
  assert.equal(turned, 30);
  assert.equal(slots.slow, 30);
  assert.equal(slots.mayStart('slow'), false);
});

test('unproven ones that turn slow leave the quick side to proven ones', () => {
  const slots = new Slots({ ...limits, overdraftSlots: 40 });
  for (let held = fill(slots, 'unproven'); held.length > 0; held = fill(slots, 'unproven')) {
    held.forEach((one) => slots.turnSlow(one));
  }
  assert.equal(slots.slow, 45);
  assert.equal(fill(slots, 'proven').length, 15);
});

test('first attempts are owed a quarter of their side, repeated ones a tenth', () => {
  const slots = new Slots({ ...limits, slots: 40 });
  const owed = (isRetry: boolean): number => {
    let count = 0;
    for (; slots.owes('proven', isRetry); count += 1) slots.start({ share: 'proven', isRetry });
    return count;
  };
  assert.deepEqual([owed(false), owed(true)], [7, 3]);
  assert.equal(slots.owes('slow', true), true, 'the slow ones are counted apart');
});

type Step = { what: 'start' | 'turn' | 'end'; share: Held['share']; isRetry: boolean; which: number };

const anyStep: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('start', 'start', 'turn', 'end'),
  share: fc.constantFrom('proven', 'unproven', 'slow'),
  isRetry: fc.boolean(),
  which: fc.nat(1_000),
});

test('whatever happens, no share is exceeded and nobody waits while there is room in his', () => {
  const property = (size: number, steps: Step[]) => {
    const slots = new Slots({ ...limits, slots: size });
    const slowLimit = shareOf(size, limits.slowSlotsPercent);
    const quickLimit = size - slowLimit;
    const held: Held[] = [];
    for (const { what, share, isRetry, which } of steps) {
      const one = held[which % Math.max(1, held.length)];
      const count = (wanted: Held['share']) => held.filter((each) => each.share === wanted).length;
      const quick = count('proven') + count('unproven');
      if (what === 'start') {
        const room = {
          slow: count('slow') < slowLimit,
          proven: quick < quickLimit && held.length < size + limits.overdraftSlots,
          unproven:
            quick < quickLimit && count('unproven') < size / 2 && held.length < slowLimit + limits.overdraftSlots,
        };
        assert.equal(slots.mayStart(share), room[share]);
        if (!room[share]) continue;
        const next = { share, isRetry };
        slots.start(next);
        held.push(next);
      } else if (one !== undefined && what === 'turn') slots.turnSlow(one);
      else if (one !== undefined) slots.end(...(held.splice(held.indexOf(one), 1) as [Held]));
      assert.equal(slots.inFlight, held.length);
      assert.ok(held.length <= size + limits.overdraftSlots);
    }
    for (const one of held) slots.end(one);
    assert.deepEqual([slots.inFlight, slots.slow, slots.unproven], [0, 0, 0]);
  };
  const sizes = fc.constantFrom(4, 8, 20);
  fc.assert(fc.property(sizes, fc.array(anyStep, { maxLength: 200 }), property));
});
