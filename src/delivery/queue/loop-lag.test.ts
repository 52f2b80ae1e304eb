import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LoopLag } from './sender.ts';

function loopThatWasLate(...lateMs: number[]): LoopLag {
  const loop = new LoopLag();
  for (const ms of lateMs) loop.recordTimerDelay(ms);
  return loop;
}

test('an exchange counts as lagging if the loop was fully busy and the exchange ended within a few turns', () => {
  const loop = loopThatWasLate(20);
  assert.equal(loop.isLagging(40, 0), true);
  assert.equal(loop.isLagging(40, 10), false, 'the loop was idle for a quarter of the time');
  assert.equal(loop.isLagging(300, 0), false, 'no exchange waits for ten turns');
});

test('the recorded lag decreases with each tick', () => {
  assert.equal(loopThatWasLate(20, 0).isLagging(40, 0), true);
  assert.equal(loopThatWasLate(20, 0, 0, 0, 0, 0, 0, 0, 0).isLagging(40, 0), false);
});
