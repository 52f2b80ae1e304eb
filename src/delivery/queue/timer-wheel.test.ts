import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, integer, property, tuple } from 'fast-check';
import { TimerWheel } from './dispatcher.ts';

const wheelAt = (nowMs: number): TimerWheel<string> => new TimerWheel({ slotMs: 20, slots: 50, nowMs });

test('an item is due once, within a slot of its time and never before it', () => {
  const wheel = wheelAt(10_000);
  wheel.add('a', 10_210);
  wheel.add('b', 10_300);
  assert.deepEqual(wheel.takeDue(10_219), []);
  assert.deepEqual(wheel.takeDue(10_220), ['a']);
  assert.deepEqual(wheel.takeDue(10_299), []);
  assert.deepEqual(wheel.takeDue(10_300), ['b']);
  assert.deepEqual(wheel.takeDue(99_000), []);
});

test('an item further away than one rotation waits for as many rotations', () => {
  const wheel = wheelAt(0);
  wheel.add('later', 3_600_000);
  for (let nowMs = 0; nowMs < 3_600_000; nowMs += 20) assert.deepEqual(wheel.takeDue(nowMs), []);
  assert.deepEqual(wheel.takeDue(3_600_000), ['later']);
});

test('an overdue item comes with the next slot', () => {
  const wheel = wheelAt(10_000);
  wheel.add('late', 1_000);
  assert.deepEqual(wheel.takeDue(10_020), ['late']);
});

test('after a clock jump forward, all items passed over are due', () => {
  const wheel = wheelAt(0);
  wheel.add('a', 500);
  wheel.add('b', 250_000);
  wheel.add('c', 400_000);
  assert.deepEqual(wheel.takeDue(300_000), ['a', 'b']);
  assert.deepEqual(wheel.takeDue(400_000), ['c']);
});

test('after a clock jump back, no item is due early or later than its time', () => {
  const wheel = wheelAt(300_000);
  wheel.add('a', 300_100);
  wheel.add('b', 10_000);
  assert.deepEqual(wheel.takeDue(1_000), []);
  wheel.add('c', 1_100);
  assert.deepEqual(wheel.takeDue(1_100), ['c']);
  assert.deepEqual(wheel.takeDue(10_000), ['b']);
  assert.deepEqual(wheel.takeDue(300_100), ['a']);
});

test('a pruned item is no longer due', () => {
  const wheel = wheelAt(0);
  wheel.add('stays', 100);
  wheel.add('goes', 100);
  wheel.prune((item) => item === 'goes');
  assert.deepEqual(wheel.takeDue(100), ['stays']);
});

test('the wheel returns the next occupied slot, if there is one near', () => {
  const wheel = wheelAt(0);
  assert.equal(wheel.nextDueMs(10), Number.POSITIVE_INFINITY);
  wheel.add('far', 900);
  assert.equal(wheel.nextDueMs(10), Number.POSITIVE_INFINITY);
  wheel.add('near', 110);
  assert.equal(wheel.nextDueMs(10), 120);
});

test('for any items and any progress of time, each item is due in the first look at or after its slot', () => {
  const steps = array(tuple(integer({ min: 0, max: 5_000 }), integer({ min: 0, max: 1_500 })), {
    maxLength: 60,
  });
  check(
    property(steps, (given) => {
      const wheel = new TimerWheel<number>({ slotMs: 20, slots: 50, nowMs: 0 });
      const waiting = new Map<number, number>();
      let nowMs = 0;
      given.forEach(([inMs, passMs], item) => {
        wheel.add(item, nowMs + inMs);
        // Between two slots nothing is due: an item due at once comes with the next one.
        waiting.set(item, Math.max(Math.ceil((nowMs + inMs) / 20), Math.floor(nowMs / 20) + 1));
        nowMs += passMs;
        const expected = [...waiting].filter(([, slot]) => slot <= Math.floor(nowMs / 20)).map(([one]) => one);
        for (const one of expected) waiting.delete(one);
        assert.deepEqual(new Set(wheel.takeDue(nowMs)), new Set(expected));
      });
    }),
  );
});
