import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { HEALTHY, NO_BACKOFF } from '../policy/policy.ts';
import { Lane, blockerOf, shownStateOf } from './lane.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';

const limits = { laneQueue: 4, slotsPerLane: 3, slotsPerSlowLane: 2 };
const NOW = 1_000;
const breaker = { failedProbes: 0, probeAtMs: NOW + 1 };

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
    pausedUntilMs: does.includes('is paused') ? NOW + 1 : 0,
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
  const states = lanes.map((lane) => shownStateOf(lane, NOW));
  assert.deepEqual(states, ['idle', 'ready', 'sending', 'probing', 'paused', 'inactive', 'unusable']);
});

test('a lane waits for its endpoint because of a pause, probe, rate limit or running attempt, otherwise for the worker', () => {
  const paced = laneThat('waits');
  paced.startConditions.applyRateLimit(10, NOW);
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
  const holders = lanes.map((lane) => blockerOf(lane, NOW));
  assert.deepEqual(holders, ['us', 'endpoint', 'endpoint', 'endpoint', 'endpoint', 'endpoint']);
  // 100 ms for the next one, and as many late.
  assert.deepEqual([blockerOf(paced, NOW + 200), blockerOf(paced, NOW + 201)], ['endpoint', 'us']);
});

test('a lane whose settings are read again, or that is being disabled, still shows what its endpoint delays', () => {
  for (const cause of ['is paused', 'is probed'] as const) {
    const lanes = [laneThat('waits', cause), laneThat('waits', cause)] as const;
    lanes[0].discardSettings();
    lanes[1].applyOutcome(0, { health: HEALTHY, backoff: lanes[1].startConditions.backoff, isPendingDisable: true });
    for (const lane of lanes) {
      assert.equal(shownStateOf(lane, NOW), cause === 'is paused' ? 'paused' : 'probing');
      assert.equal(blockerOf(lane, NOW), 'endpoint');
    }
  }
  const unread = laneThat('waits');
  unread.discardSettings();
  assert.deepEqual([shownStateOf(unread, NOW), blockerOf(unread, NOW)], ['ready', 'us']);
});

test('an expired pause is no state', () => {
  assert.equal(shownStateOf(laneThat('waits', 'is paused'), NOW + 1), 'ready');
});
