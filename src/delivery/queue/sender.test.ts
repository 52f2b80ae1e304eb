import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { NO_BACKOFF, UNKNOWN } from '../policy/policy.ts';
import { toStates } from '../record/record-sql.ts';
import { Lane } from './lane.ts';
import { complete, Ages, LoopLag } from './sender.ts';

const settings = {
  slowAfterMs: 1_000,
  deactivateAfterFailures: 12,
  deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
};

const dueAt = new Date(0);

/** A lane, and how one of its exchanges ends. */
function start() {
  const lane = new Lane(0, 512, { laneQueue: 4, slotsPerLane: 4, slotsPerSlowLane: 4 });
  const end = (id: number, epoch: number, outcome: Outcome) => {
    const delivery = { id, storeId: 256, webhookId: 512, epoch, eventId: id, attempts: 0, faults: 0, dueAt };
    const scheduled = { lane, target: { ...ACTIVE, epoch }, delivery, fence: 3, inFlight: 1, isProbe: false };
    const attempt = { startedAt: systemClock.now(), durationMs: 5, outcome };
    return complete(scheduled, attempt, false, { clock: systemClock, random: () => 0 }, settings);
  };
  return { lane, end };
}

const reply = { code: 500, headers: '', body: '' };

// Outcomes

test('the result of an attempt from an older epoch is ignored', () => {
  const { lane, end } = start();
  const firstFailureAt = new Date(systemClock.now().getTime() - 45 * 60_000);
  const health = { consecutiveFailures: 6, firstFailureAt, isWarned: false, hasSucceeded: false };
  lane.applyOutcome(1, { health, backoff: NO_BACKOFF, isPendingDisable: false });
  const present = end(1, 1, { kind: 'refused', reply, retryAfterMs: 0 });
  const late = end(2, 0, { kind: 'gone', reply: { ...reply, code: 410 } });
  assert.deepEqual(lane.health, {
    epoch: 1,
    consecutiveFailures: 7,
    firstFailureAt,
    isWarned: true,
    hasSucceeded: false,
    isPendingDisable: false,
  });
  assert.deepEqual([present.isWarning, late.isWarning], [true, false]);
  assert.deepEqual(
    toStates([present, late]).map(({ delivery, state }) => [
      delivery.epoch,
      state.consecutiveFailures,
      state.isPendingDisable,
      state.isWarned,
    ]),
    [[1, 7, false, true]],
  );
});

test('only the first success of a webhook is noted', () => {
  const { lane, end } = start();
  const delivered: Outcome = { kind: 'delivered', reply: { ...reply, code: 204 } };
  lane.applyOutcome(1, { health: UNKNOWN, backoff: NO_BACKOFF, isPendingDisable: false });
  const noted = [end(1, 1, delivered), end(2, 1, delivered)].map(({ webhook }) => webhook?.consecutiveFailures ?? null);
  assert.deepEqual(noted, [0, null]);
});

// Ages

/** The ticks at which each is due. */
function ticksOf(ages: Ages<string>, ticks: number): Record<string, number> {
  const due: Record<string, number> = {};
  for (let tick = 1; tick <= ticks; tick += 1) for (const item of ages.tick()) due[item] = tick;
  return due;
}

test('an age is reached no earlier than due and at most two ticks later, round after round', () => {
  const ages = new Ages<string>(50, 1_000);
  for (let round = 0; round < 3; round += 1) {
    ages.add('at once', 0);
    ages.add('soon', 150);
    ages.add('odd', 151);
    ages.add('last', 1_000);
    assert.deepEqual(ticksOf(ages, 30), { 'at once': 1, soon: 4, odd: 5, last: 21 });
  }
});

test('a pause of our own process counts as one tick, however long it was', () => {
  const ages = new Ages<string>(50, 1_000);
  ages.add('answered during the pause', 1_000);
  assert.deepEqual([...ages.tick()], []);
});

test('an ended attempt reaches no further age', () => {
  const ages = new Ages<string>(50, 1_000);
  ages.add('over', 100)?.delete('over');
  assert.deepEqual(ticksOf(ages, 30), {});
});

// The lag of the event loop

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
