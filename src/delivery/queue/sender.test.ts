import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { NO_BACKOFF, UNKNOWN } from '../policy/policy.ts';
import { toStates } from '../record/record-sql.ts';
import { Lane } from './lane.ts';
import { complete } from './sender.ts';

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
