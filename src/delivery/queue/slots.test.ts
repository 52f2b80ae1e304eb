import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { shareOf, Slots, type SlotUse, Quota } from './run-queue.ts';

const limits = {
  slots: 20,
  overdraftSlots: 10,
  slowSlotsPercent: 25,
  newSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
};

/** Starts as many as allowed, up to 100. */
function fill(slots: Slots, speed: SlotUse['speed'], isRetry = false): SlotUse[] {
  const held: SlotUse[] = [];
  while (held.length < 100 && slots.mayStart(speed)) {
    const one = { speed, isRetry };
    slots.acquire(one);
    held.push(one);
  }
  return held;
}

// Slots of the partitions

test('slow lanes get a quarter of the slots, new ones half, fast ones all that is not reserved for slow ones', () => {
  assert.equal(fill(new Slots(limits), 'slow').length, 5);
  assert.equal(fill(new Slots(limits), 'new').length, 10);
  assert.equal(fill(new Slots(limits), 'fast').length, 15);
});

test('an attempt that becomes slow releases a fast slot and takes a slow one', () => {
  const slots = new Slots(limits);
  const [first] = fill(slots, 'fast');
  assert.ok(first !== undefined);
  slots.markSlow(first);
  assert.equal(slots.mayStart('fast'), true);
  assert.equal(fill(slots, 'slow').length, 4);
});

test('attempts that become slow may exceed the slow quota, up to the overdraft limit', () => {
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

test('new endpoints that become slow leave the fast quota to fast ones', () => {
  const slots = new Slots({ ...limits, overdraftSlots: 40 });
  for (let held = fill(slots, 'new'); held.length > 0; held = fill(slots, 'new')) {
    held.forEach((one) => slots.markSlow(one));
  }
  assert.equal(slots.slowInFlight, 45);
  assert.equal(fill(slots, 'fast').length, 15);
});

test('first attempts get at least a quarter of their quota, retries a tenth', () => {
  const slots = new Slots({ ...limits, slots: 40 });
  const owed = (isRetry: boolean): number => {
    let count = 0;
    for (; slots.isBelowReserve('fast', isRetry); count += 1) slots.acquire({ speed: 'fast', isRetry });
    return count;
  };
  assert.deepEqual([owed(false), owed(true)], [7, 3]);
  assert.equal(slots.isBelowReserve('slow', true), true, 'slow attempts have their own quota');
});

type Step = { what: 'start' | 'turn' | 'end'; speed: SlotUse['speed']; isRetry: boolean; which: number };

const anyStep: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('start', 'start', 'turn', 'end'),
  speed: fc.constantFrom('fast', 'new', 'slow'),
  isRetry: fc.boolean(),
  which: fc.nat(1_000),
});

test('in any sequence, no quota is exceeded and no attempt waits while its quota has a free slot', () => {
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
        const hasFreeSlot = {
          slow: count('slow') < slowLimit,
          fast: quick < quickLimit && held.length < size + limits.overdraftSlots,
          new: quick < quickLimit && count('new') < size / 2 && held.length < slowLimit + limits.overdraftSlots,
        };
        assert.equal(slots.mayStart(speed), hasFreeSlot[speed]);
        if (!hasFreeSlot[speed]) continue;
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

// Quotas of stores and origins

test('pruning removes lanes that no longer wait, and the others keep their order', () => {
  const quota = new Quota<string, number>(10);
  for (const lane of [1, 2, 3, 4]) quota.block('a', 'slow', lane, lane === 4);
  quota.block('b', 'fast', 5, false);
  quota.prune((lane) => lane === 1 || lane === 4 || lane === 5);
  assert.deepEqual([quota.wake('a', 'slow'), quota.wake('a', 'slow')], [2, 3]);
  assert.deepEqual([quota.wake('a', 'slow'), quota.wake('b', 'fast')], [undefined, undefined]);
});
