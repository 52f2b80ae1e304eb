import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../exchange/outcome.ts';
import { Lanes } from './lanes.ts';

const limits = { laneQueue: 4, slotsPerLane: 3, slotsPerSlowLane: 2, endpointsKept: 2, heldDeliveries: 10 };
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const slow = { durationMs: 30_000, isSlow: true, alongside: 1, isWaiting: false, isOurs: false };

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

test('lanes that hold much together hold little each, and a shard that is lost takes no room', () => {
  const lanes = new Lanes({ ...limits, laneQueue: 100 });
  const offer = (shard: number, webhookId: number, count: number): number => {
    const { holding } = lanes.get(shard, webhookId);
    for (let n = 1; n <= count; n += 1) {
      const id = webhookId * 1_000 + n;
      holding.offer({ id, storeId: 1, webhookId, epoch: 0, eventId: id, attempts: 0, faults: 0, dueAt: new Date(0) });
    }
    return holding.queued;
  };
  assert.deepEqual([offer(0, 1, 50), offer(1, 2, 50), lanes.held], [10, 4, 14]);
  lanes.close(0);
  assert.deepEqual([offer(1, 3, 50), lanes.held], [6, 10]);
});
