import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { Lane, blockerOf, shownStateOf } from './lane.ts';
import type { Pending } from '../policy/entry.ts';
import { HEALTHY, NO_BACKOFF } from '../policy/policy.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';

const limits = { laneQueue: 4, slotsPerLane: 3, slotsPerSlowLane: 2 };
const NOW = 1_000_000;

const pending = (id: number, epoch = 0): Pending => ({
  id,
  storeId: 256,
  webhookId: 512,
  epoch,
  eventId: id * 10,
  attempts: 0,
  faults: 0,
  dueAt: new Date(NOW - 1),
});
const row = (id: number, dueAtMs = NOW - 1): Pending => ({ ...pending(id), dueAt: new Date(dueAtMs) });

function laneWith(...ids: number[]): Lane {
  const lane = new Lane(0, 512, limits);
  lane.applySettings(ACTIVE);
  for (const id of ids) lane.deliveries.offer(pending(id));
  return lane;
}

function takeAll(lane: Lane): number[] {
  const ids: number[] = [];
  for (let delivery = lane.take(); delivery !== undefined; delivery = lane.take()) ids.push(delivery.id);
  return ids;
}

function fetch(lane: Lane, rows: Pending[], limit?: number): void {
  const begun = lane.deliveries.beginFetch(NOW);
  lane.deliveries.endFetch(rows, { ...begun, limit: limit ?? begun.limit }, NOW);
}

// The deliveries of a lane

test('an announced delivery is queued, and a repeated announcement only once', () => {
  assert.deepEqual(takeAll(laneWith(1, 2, 1)), [1, 2]);
});

test('deliveries beyond the queue limit stay in the table, and so do the announcements after them', () => {
  const lane = laneWith(1, 2, 3, 4, 5);
  assert.deepEqual(takeAll(lane), [1, 2, 3, 4]);
  lane.deliveries.offer(pending(6));
  assert.deepEqual(takeAll(lane), [], '6 would overtake 5, which is only in the table');
  assert.equal(lane.needsFetch, true);
});

test('a fetch leaves out deliveries in memory: queued, in flight and unrecorded', () => {
  const lane = laneWith(1, 2);
  lane.take();
  lane.deliveries.markIncomplete();
  fetch(lane, [row(1), row(2), row(3)]);
  assert.deepEqual(takeAll(lane), [2, 3]);
});

test('a fetch leaves out deliveries that left memory after it began', () => {
  const lane = laneWith(1);
  lane.take();
  lane.deliveries.markIncomplete();
  const begun = lane.deliveries.beginFetch(NOW);
  // Recorded while the fetch, which began before, still saw the row.
  lane.attemptEnded();
  lane.deliveries.complete(1, null);
  lane.deliveries.endFetch([row(1), row(2)], begun, NOW);
  assert.deepEqual(takeAll(lane), [2]);
});

test('a delivery that left during one fetch may come with the next', () => {
  const lane = laneWith(1);
  lane.take();
  lane.deliveries.markIncomplete();
  const begun = lane.deliveries.beginFetch(NOW);
  lane.deliveries.complete(1, NOW - 1);
  lane.deliveries.endFetch([], begun, NOW);
  lane.deliveries.markIncomplete();
  fetch(lane, [row(1)]);
  assert.deepEqual(takeAll(lane), [1]);
});

test('a short fetch means that the table has no more rows', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  fetch(lane, [row(1)]);
  assert.equal(lane.needsFetch, false);
  lane.deliveries.offer(pending(2));
  assert.deepEqual(takeAll(lane), [1, 2]);
});

test('a short fetch does not mean so if an announcement was dropped meanwhile', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  const begun = lane.deliveries.beginFetch(NOW);
  lane.deliveries.offer(pending(2));
  lane.deliveries.endFetch([row(1)], begun, NOW);
  assert.equal(lane.needsFetch, true, '2 was committed after the fetch had read the table');
});

test('a fetch begins a minute before the first row of the one before, and every 30 s at the beginning', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  lane.deliveries.endFetch([row(1, NOW - 5_000)], lane.deliveries.beginFetch(NOW), NOW);
  assert.equal(lane.deliveries.beginFetch(NOW + 29_999).fromMs, NOW - 65_000);
  assert.equal(lane.deliveries.beginFetch(NOW + 30_000).fromMs, 0);
});

test('a row that is due later does not keep a fetch from rows that are due now', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  lane.deliveries.endFetch([row(1, NOW + 3_600_000)], lane.deliveries.beginFetch(NOW), NOW);
  assert.equal(lane.deliveries.beginFetch(NOW + 1).fromMs, NOW - 60_000);
});

test('after a fetch that did not begin at the beginning the lane fetches again in time', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  lane.deliveries.endFetch([row(1)], lane.deliveries.beginFetch(NOW), NOW);
  lane.deliveries.markIncomplete();
  lane.deliveries.endFetch([row(1)], lane.deliveries.beginFetch(NOW + 1), NOW + 1);
  assert.deepEqual([lane.needsFetch, lane.deliveries.wakeAtMs], [false, NOW + 30_000]);
});

test('a full fetch means that there may be more', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  fetch(lane, [row(1)], 1);
  takeAll(lane);
  assert.equal(lane.needsFetch, true);
});

test('rows that are not due yet set the time of the next fetch', () => {
  const lane = laneWith();
  lane.deliveries.markIncomplete();
  fetch(lane, [row(1), row(2, NOW + 5_000), row(3, NOW + 9_000)]);
  assert.deepEqual(takeAll(lane), [1]);
  assert.equal(lane.deliveries.wakeAtMs, NOW + 5_000);
  assert.equal(lane.needsFetch, false);
});

test('a lane runs as many exchanges as its concurrency limit allows', () => {
  const lane = laneWith(1, 2, 3);
  lane.take();
  assert.equal(lane.mayStart(NOW), false, 'the limit starts at one');
  lane.attemptEnded();
  lane.latency.concurrency.recordSuccess({ durationMs: 1, inFlight: 1, hasMoreToSend: true, loopIsLagging: false });
  lane.take();
  assert.equal(lane.mayStart(NOW), true, 'the limit is two');
  lane.latency.concurrency.recordTimeout();
  assert.equal(lane.mayStart(NOW), false, 'the limit is one again, and one attempt is running');
});

test('nothing is sent while the webhook is unknown, disabled or paused, or the shard is lost', () => {
  const lane = laneWith(1);
  assert.equal(lane.mayStart(NOW), true);
  lane.startConditions.backoff = { pausedUntilMs: NOW + 1, breaker: null };
  assert.equal(lane.mayStart(NOW), false);
  assert.equal(lane.mayStart(NOW + 1), true);
  lane.discardSettings();
  assert.equal(lane.mayStart(NOW + 1), false);
  lane.applySettings({ isActive: false, epoch: 1 });
  assert.equal(lane.mayStart(NOW + 1), false);
  lane.applySettings({ ...ACTIVE, epoch: 1 });
  assert.equal(lane.mayStart(NOW + 1), true);
  lane.close();
  assert.equal(lane.mayStart(NOW + 1), false);
});

test('disabling removes deliveries older than the new epoch and leaves the rest', () => {
  const lane = laneWith();
  lane.deliveries.offer(pending(1, 0));
  lane.deliveries.offer(pending(2, 1));
  assert.deepEqual(
    lane.deliveries.takeMatching(({ epoch }) => epoch < 1).map(({ id }) => id),
    [1],
  );
  assert.deepEqual(takeAll(lane), [2]);
});

test('a shard can be handed back when all its state is in the table', () => {
  const lane = laneWith(1, 2);
  assert.equal(lane.deliveries.isFullyRecorded, true, 'a queued delivery is in the table as well');
  lane.take();
  assert.equal(lane.deliveries.isFullyRecorded, false);
  lane.attemptEnded();
  assert.equal(lane.deliveries.isFullyRecorded, false, 'sent and not yet recorded');
  lane.deliveries.complete(1, null);
  assert.equal(lane.deliveries.isFullyRecorded, true);
});

// States

const STARTED = 1_000;
const breaker = { failedProbes: 0, probeAtMs: STARTED + 1 };

function laneThat(...does: ('waits' | 'sends' | 'is paused' | 'is probed' | 'is off' | 'is broken')[]): Lane {
  const lane = new Lane(0, 512, limits);
  lane.applySettings(ACTIVE);
  const delivery = {
    id: 1,
    storeId: 1,
    webhookId: 512,
    epoch: 0,
    eventId: 1,
    attempts: 0,
    faults: 0,
    dueAt: new Date(0),
  };
  if (does.includes('waits')) lane.deliveries.offer(delivery);
  if (does.includes('sends')) {
    lane.deliveries.offer({ ...delivery, id: 2 });
    lane.take();
  }
  lane.startConditions.backoff = {
    pausedUntilMs: does.includes('is paused') ? STARTED + 1 : 0,
    breaker: does.includes('is probed') ? breaker : null,
  };
  if (does.includes('is off')) lane.applySettings({ isActive: false, epoch: 1 });
  if (does.includes('is broken')) lane.applySettings(UNUSABLE);
  return lane;
}

test('a lane has one state: a reason to wait takes precedence over its activity', () => {
  const lanes = [
    laneThat(),
    laneThat('waits'),
    laneThat('waits', 'sends'),
    laneThat('waits', 'sends', 'is probed'),
    laneThat('sends', 'is probed', 'is paused'),
    laneThat('waits', 'sends', 'is probed', 'is paused', 'is off'),
    laneThat('waits', 'is paused', 'is broken'),
  ];
  const states = lanes.map((lane) => shownStateOf(lane, STARTED));
  assert.deepEqual(states, ['idle', 'ready', 'sending', 'probing', 'paused', 'inactive', 'unusable']);
});

test('a lane waits for its endpoint because of a pause, probe, rate limit or running attempt, otherwise for the worker', () => {
  const paced = laneThat('waits');
  paced.startConditions.applyRateLimit(10, STARTED);
  const pendingDisable = laneThat('waits');
  pendingDisable.applyOutcome(0, { health: HEALTHY, backoff: NO_BACKOFF, isPendingDisable: true });
  const lanes = [
    laneThat('waits'),
    laneThat('waits', 'is paused'),
    laneThat('waits', 'is probed'),
    // A concurrency limit starts at one.
    laneThat('waits', 'sends'),
    paced,
    pendingDisable,
  ];
  const holders = lanes.map((lane) => blockerOf(lane, STARTED));
  assert.deepEqual(holders, ['us', 'endpoint', 'endpoint', 'endpoint', 'endpoint', 'endpoint']);
  // 100 ms for the next one, and as many late.
  assert.deepEqual([blockerOf(paced, STARTED + 200), blockerOf(paced, STARTED + 201)], ['endpoint', 'us']);
});

test('a lane whose settings are read again, or that is being disabled, still shows what its endpoint delays', () => {
  for (const cause of ['is paused', 'is probed'] as const) {
    const lanes = [laneThat('waits', cause), laneThat('waits', cause)] as const;
    lanes[0].discardSettings();
    lanes[1].applyOutcome(0, { health: HEALTHY, backoff: lanes[1].startConditions.backoff, isPendingDisable: true });
    for (const lane of lanes) {
      assert.equal(shownStateOf(lane, STARTED), cause === 'is paused' ? 'paused' : 'probing');
      assert.equal(blockerOf(lane, STARTED), 'endpoint');
    }
  }
  const unread = laneThat('waits');
  unread.discardSettings();
  assert.deepEqual([shownStateOf(unread, STARTED), blockerOf(unread, STARTED)], ['ready', 'us']);
});

test('an expired pause is no state', () => {
  assert.equal(shownStateOf(laneThat('waits', 'is paused'), STARTED + 1), 'ready');
});
