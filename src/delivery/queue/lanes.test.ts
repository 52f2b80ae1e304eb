import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import { HEALTHY, NO_BACKOFF, type Health } from '../policy/policy.ts';
import { Lanes } from './lanes.ts';

const limits = {
  laneQueue: 4,
  slotsPerLane: 3,
  slotsPerSlowLane: 2,
  endpointsKept: 2,
  heldDeliveries: 10,
  heldLanes: 20,
};
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const slow = { durationMs: 30_000, isSlow: true, inFlight: 1, hasMoreToSend: false, loopIsLagging: false };

test('a lane without work is removed, and the speed of its endpoint is remembered', () => {
  const lanes = new Lanes(limits);
  const lane = lanes.get(0, 512);
  lane.latency.record(timedOut, slow);
  lanes.sweep();
  assert.equal(lanes.find(0, 512), undefined);
  assert.equal(lanes.get(0, 512).speed, 'slow');
});

test('a lane without work stays until the changed settings of its webhook have been read', () => {
  const lanes = new Lanes(limits);
  const lane = lanes.get(0, 512);
  lane.discardSettings();
  lanes.sweep();
  assert.deepEqual([lanes.find(0, 512), lane.needsTarget], [lane, true]);
  lane.applySettings(ACTIVE);
  lanes.sweep();
  assert.equal(lanes.find(0, 512), undefined);
});

test('the lane of an unusable webhook stays without deliveries, so that it is logged once, until its place is needed', () => {
  const lanes = new Lanes(limits);
  const unusable = (webhookId: number) => {
    const lane = lanes.get(0, webhookId);
    lane.applySettings(UNUSABLE);
    lane.deliveries.endFetch([], lane.deliveries.beginFetch(0), 0);
    lanes.sweep();
    return lane;
  };
  const [repaired, evicted] = [unusable(512), unusable(768)];
  assert.deepEqual([...lanes.all()], [repaired, evicted]);
  repaired.applySettings(ACTIVE);
  lanes.sweep();
  assert.deepEqual([...lanes.all()], [evicted]);
  for (let round = 0; round < 2; round += 1) lanes.evictIdle(0, true);
  assert.equal(lanes.count, 0);
});

test('the speed of a limited number of idle endpoints is remembered, most recently used first', () => {
  const lanes = new Lanes(limits);
  for (const id of [1, 2, 3]) {
    lanes.get(0, id).latency.record(timedOut, slow);
    lanes.sweep();
  }
  assert.deepEqual(
    [1, 2, 3].map((id) => lanes.get(0, id).speed),
    ['new', 'slow', 'slow'],
  );
});

/** Lanes of up to 100 deliveries; `offer` returns how many the lane queues then. */
function lanesWithOffers() {
  const lanes = new Lanes({ ...limits, laneQueue: 100 });
  const offer = (shard: number, webhookId: number, count: number, health: Health | null = HEALTHY): number => {
    const lane = lanes.get(shard, webhookId);
    if (health !== null) lane.applyOutcome(0, { health, backoff: NO_BACKOFF, isPendingDisable: false });
    const { deliveries } = lane;
    for (let n = 1; n <= count; n += 1) {
      const id = webhookId * 1_000 + n;
      deliveries.offer({
        id,
        storeId: 1,
        webhookId,
        epoch: 0,
        eventId: id,
        attempts: 0,
        faults: 0,
        dueAt: new Date(0),
      });
    }
    return deliveries.queued;
  };
  return { lanes, offer };
}

test('a lane whose endpoint is new or slow has a few deliveries in memory, and the table the others', () => {
  const { lanes, offer } = lanesWithOffers();
  const failed = { ...HEALTHY, consecutiveFailures: 1, hasSucceeded: false };
  assert.deepEqual([offer(0, 1, 50, null), offer(0, 2, 50, failed), lanes.loadedDeliveries], [4, 4, 8]);
  assert.equal(lanes.get(0, 1).deliveries.hasWork, true);
});

test('the memory shared by lanes limits each of them, and a lost shard frees its part', () => {
  const { lanes, offer } = lanesWithOffers();
  assert.deepEqual([offer(0, 1, 50), offer(1, 2, 50), lanes.loadedDeliveries], [10, 4, 14]);
  lanes.close(0);
  assert.deepEqual([offer(1, 3, 50), lanes.loadedDeliveries], [6, 10]);
});

const answered = { durationMs: 10, isSlow: false, inFlight: 1, hasMoreToSend: true, loopIsLagging: false };
const delivered: Outcome = { kind: 'delivered', reply: { code: 200, headers: '', body: '' } };

/** Webhooks 1 to 4 with a queued delivery each: one is new, one answers fast, one is probed, one has a running attempt. */
function crowd(lanes: Lanes): void {
  for (const id of [1, 2, 3, 4]) {
    const lane = lanes.get(0, id);
    lane.applySettings(ACTIVE);
    lane.deliveries.offer({
      id,
      storeId: 1,
      webhookId: id,
      epoch: 0,
      eventId: id,
      attempts: 0,
      faults: 0,
      dueAt: new Date(0),
    });
    if (id === 2 || id === 3) lane.latency.record(delivered, answered);
    if (id === 3) lane.startConditions.backoff = { pausedUntilMs: 0, breaker: { failedProbes: 1, probeAtMs: 10_000 } };
    if (id === 4) lane.take();
  }
}
const remaining = (lanes: Lanes): number[] => [...lanes.all()].map(({ webhookId }) => webhookId);

test('a lane idle for a whole round is evicted, but not if its endpoint is fast or an attempt is running', () => {
  const lanes = new Lanes(limits);
  crowd(lanes);
  assert.equal(lanes.evictIdle(0, true), 0);
  assert.equal(lanes.evictIdle(0, true), 2);
  assert.deepEqual([remaining(lanes), lanes.count, lanes.loadedDeliveries], [[2, 4], 2, 2]);
});

test('a lane is evicted only if another webhook needs it or there are too many', () => {
  const [lanes, tooMany] = [new Lanes(limits), new Lanes({ ...limits, heldLanes: 3 })];
  for (const all of [lanes, tooMany]) {
    crowd(all);
    all.evictIdle(0, false);
    all.evictIdle(0, false);
  }
  assert.deepEqual(
    [remaining(lanes), remaining(tooMany)],
    [
      [1, 2, 3, 4],
      [2, 4],
    ],
  );
});

test('an evicted webhook waits until few lanes are in use, or a delivery is announced', () => {
  const lanes = new Lanes({ ...limits, heldLanes: 20 });
  crowd(lanes);
  lanes.evictIdle(0, true);
  lanes.evictIdle(0, true);
  assert.deepEqual([lanes.placementOf(0, 1, true), lanes.placementOf(0, 9, true)], ['deferred', 'lane']);
  lanes.get(0, 1);
  assert.equal(lanes.placementOf(0, 1, true), 'lane');
  for (let id = 10; lanes.count < 20; id += 1) lanes.get(0, id);
  assert.deepEqual([lanes.placementOf(0, 2, true), lanes.placementOf(0, 9, true)], ['lane', 'full']);
});
