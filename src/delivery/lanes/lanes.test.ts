import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../exchange/outcome.ts';
import { Lanes } from './lanes.ts';

const limits = { laneQueue: 4, slotsPerLane: 3, slotsPerSlowLane: 2, endpointsKept: 2 };
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const slow = { durationMs: 30_000, isSlow: true, alongside: 1, isWaiting: false };

test('a lane without work is forgotten, and how fast its endpoint was is not', () => {
  const lanes = new Lanes(limits);
  const lane = lanes.get(0, 512);
  lane.tempo.learn(timedOut, slow);
  lanes.sweep();
  assert.equal(lanes.find(0, 512), undefined);
  assert.equal(lanes.get(0, 512).speed, 'slow');
});

test('of endpoints without work so many are remembered, those that had some last', () => {
  const lanes = new Lanes(limits);
  for (const id of [1, 2, 3]) {
    lanes.get(0, id).tempo.learn(timedOut, slow);
    lanes.sweep();
  }
  assert.deepEqual(
    [1, 2, 3].map((id) => lanes.get(0, id).speed),
    ['unproven', 'slow', 'slow'],
  );
});
