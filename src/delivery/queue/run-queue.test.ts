import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { Lane } from './lane.ts';
import { RunQueue, type ScheduledAttempt } from './run-queue.ts';

const limits = {
  slots: 20,
  overdraftSlots: 10,
  slowSlotsPercent: 25,
  newSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
  storeSlotsPercent: 20,
  originSlotsPercent: 30,
};
const STORE_LIMIT = 4;
const ORIGIN_LIMIT = 6;
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const answered: Outcome = { kind: 'delivered', reply: { code: 204, headers: '', body: '' } };

let ids = 0;
function offer(lane: Lane, storeId: number, attempts = 0): void {
  ids += 1;
  const dueAt = new Date(0);
  lane.deliveries.offer({
    id: ids,
    storeId,
    webhookId: lane.webhookId,
    epoch: 0,
    eventId: ids,
    attempts,
    faults: 0,
    dueAt,
  });
}

function laneTo(webhookId: number, origin: string): Lane {
  const lane = new Lane(0, webhookId, { laneQueue: 50, slotsPerLane: 8, slotsPerSlowLane: 2 });
  lane.applySettings({ ...ACTIVE, url: new URL(origin), origin });
  return lane;
}

const hasWork = (lane: Lane): boolean => lane.first !== undefined && lane.inFlight < lane.latency.maxInFlight;

/** Starts all attempts that may start, as the dispatcher does. */
function pump(queue: RunQueue): ScheduledAttempt[] {
  const started: ScheduledAttempt[] = [];
  for (let attempt = queue.dequeue(); attempt !== undefined; attempt = queue.dequeue()) {
    queue.enqueue(attempt.lane);
    started.push(attempt);
  }
  return started;
}

/** `durationMs` decides whether the lane is fast. */
function end(queue: RunQueue, attempt: ScheduledAttempt, outcome: Outcome = answered, durationMs = 10): void {
  const { lane, inFlight } = attempt;
  lane.attemptEnded();
  const hasMoreToSend = lane.first !== undefined;
  lane.latency.record(outcome, {
    durationMs,
    isSlow: durationMs > 1_000,
    inFlight,
    hasMoreToSend,
    loopIsLagging: false,
  });
  queue.release(attempt);
  queue.enqueue(lane);
}

const lanesWith = (count: number, attempts = 0): Lane[] =>
  Array.from({ length: count }, (_, n) => {
    const lane = laneTo(n + 1, `http://${n}.example.com`);
    offer(lane, n + 1, attempts);
    return lane;
  });

const prove = (lane: Lane): void =>
  lane.latency.record(answered, {
    durationMs: 10,
    isSlow: false,
    inFlight: 1,
    hasMoreToSend: false,
    loopIsLagging: false,
  });

test('each ready lane is served in order, however much another one has to send', () => {
  const queue = new RunQueue({ ...limits, slots: 4 }, hasWork);
  const [busy, ...others] = lanesWith(4);
  assert.ok(busy !== undefined);
  for (let n = 0; n < 20; n += 1) offer(busy, 1);
  for (const lane of [busy, ...others]) queue.enqueue(lane);
  const order: number[] = [];
  for (let started = pump(queue); order.length < 6; started = pump(queue)) {
    for (const attempt of started) {
      order.push(attempt.lane.webhookId);
      end(queue, attempt);
    }
  }
  assert.deepEqual(order.slice(0, 5), [1, 2, 3, 4, 1]);
});

test('slow lanes delay each other, and no fast one', () => {
  const queue = new RunQueue(limits, hasWork);
  const slow = lanesWith(10);
  for (const lane of slow) {
    lane.latency.record(timedOut, {
      durationMs: 30_000,
      isSlow: true,
      inFlight: 1,
      hasMoreToSend: true,
      loopIsLagging: false,
    });
    queue.enqueue(lane);
  }
  assert.equal(pump(queue).length, 5);
  const quick = laneTo(99, 'http://quick.example.com');
  offer(quick, 99);
  prove(quick);
  queue.enqueue(quick);
  assert.deepEqual(
    pump(queue).map(({ lane }) => lane.webhookId),
    [99],
  );
});

test('new endpoints leave slots for fast ones', () => {
  const queue = new RunQueue(limits, hasWork);
  for (const lane of lanesWith(40)) queue.enqueue(lane);
  assert.equal(pump(queue).length, 10);
  const fast = laneTo(99, 'http://fast.example.com');
  offer(fast, 99);
  prove(fast);
  queue.enqueue(fast);
  assert.equal(pump(queue).length, 1);
});

/** Fills the slots with one kind, then queues others too; returns how many of these start as the slots are released one by one. */
function startsOf(waiting: number, flood: number): number {
  const queue = new RunQueue({ ...limits, slots: 40 }, hasWork);
  const lanes = [...lanesWith(60, flood), ...lanesWith(20, waiting)];
  lanes.forEach(prove);
  for (const lane of lanes.slice(0, 60)) queue.enqueue(lane);
  const flooding = pump(queue);
  for (const lane of lanes.slice(60)) queue.enqueue(lane);
  return flooding.flatMap((attempt) => {
    end(queue, attempt);
    return pump(queue).filter(({ lane }) => lanes.indexOf(lane) >= 60);
  }).length;
}

test('a flood of retries leaves a quarter to first attempts', () => {
  assert.equal(startsOf(0, 1), 7);
});

test('a flood of first attempts leaves a tenth to retries', () => {
  assert.equal(startsOf(1, 0), 3);
});

test('a lane blocked by its store is resumed in order when an attempt of the store ends', () => {
  const queue = new RunQueue(limits, hasWork);
  const lanes = Array.from({ length: 8 }, (_, n) => laneTo(n + 1, `http://${n}.example.com`));
  for (const lane of lanes) {
    offer(lane, 7);
    queue.enqueue(lane);
  }
  const started = pump(queue);
  assert.deepEqual(
    started.map(({ lane }) => lane.webhookId),
    [1, 2, 3, 4],
  );
  for (const attempt of started.slice(0, 2)) end(queue, attempt);
  assert.deepEqual(
    pump(queue).map(({ lane }) => lane.webhookId),
    [5, 6],
  );
});

test('a resumed lane that cannot start lets the next one start', () => {
  const queue = new RunQueue(limits, hasWork);
  const to = (webhookId: number, origin: string, storeId: number): Lane => {
    const lane = laneTo(webhookId, origin);
    offer(lane, storeId);
    queue.enqueue(lane);
    return lane;
  };
  for (let n = 1; n <= STORE_LIMIT; n += 1) to(n, `http://${n}.example.com`, 7);
  const [first] = pump(queue);
  // The store is at its limit. Of the two lanes that wait for it, the first one sends to an origin that is at its limit when resumed.
  to(11, 'http://full.example.com', 7);
  to(12, 'http://free.example.com', 7);
  for (let n = 21; n <= 20 + ORIGIN_LIMIT; n += 1) to(n, 'http://full.example.com', n);
  pump(queue);
  assert.ok(first !== undefined);
  end(queue, first);
  assert.deepEqual(
    pump(queue).map(({ lane }) => lane.webhookId),
    [12],
  );
});

type Step =
  | { what: 'offer'; lane: number; attempts: number }
  | { what: 'end'; which: number; outcome: Outcome; durationMs: number }
  | { what: 'late'; which: number }
  | { what: 'hold'; lane: number };

const LANES = 24;
const anyLane = fc.nat(LANES - 1);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ what: fc.constant('offer' as const), lane: anyLane, attempts: fc.nat(1) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant('end' as const),
      which: fc.nat(1_000),
      outcome: fc.constantFrom(answered, answered, timedOut),
      durationMs: fc.constantFrom(10, 10, 2_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('late' as const), which: fc.nat(1_000) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('hold' as const), lane: anyLane }) },
);

/** Two stores and three origins, so that lanes share both. */
const storeOf = (lane: number): number => 1 + (lane % 2);
const originOf = (lane: number): string => `http://${lane % 3}.example.com`;

test('in any sequence, every lane that may start does, and no store or origin exceeds its limit', () => {
  const property = (steps: Step[]) => {
    const held = new Set<Lane>();
    const mayStart = (lane: Lane) => hasWork(lane) && !held.has(lane);
    const queue = new RunQueue(limits, mayStart);
    const lanes = Array.from({ length: LANES }, (_, n) => laneTo(n + 1, originOf(n)));
    const open: ScheduledAttempt[] = [];
    for (const step of steps) {
      const lane = 'lane' in step ? lanes[step.lane] : undefined;
      const attempt = 'which' in step ? open[step.which % Math.max(1, open.length)] : undefined;
      if (step.what === 'offer' && lane !== undefined) offer(lane, storeOf(step.lane), step.attempts);
      if (step.what === 'hold' && lane !== undefined && !held.delete(lane)) held.add(lane);
      if (lane !== undefined) queue.enqueue(lane);
      if (step.what === 'late' && attempt?.isOverBudget === false) queue.markSlow(attempt);
      if (step.what === 'end' && attempt !== undefined) {
        open.splice(open.indexOf(attempt), 1);
        end(queue, attempt, step.outcome, step.durationMs);
      }
      open.push(...pump(queue));
      const ofStore = (store: number) => open.filter(({ delivery }) => delivery.storeId === store).length;
      const ofOrigin = (origin: string) => open.filter(({ target }) => target.origin === origin).length;
      for (const [n, each] of lanes.entries()) {
        assert.ok(ofStore(storeOf(n)) <= STORE_LIMIT && ofOrigin(originOf(n)) <= ORIGIN_LIMIT);
        const isHeldBack =
          !queue.slots.mayStart(each.speed) ||
          ofStore(storeOf(n)) === STORE_LIMIT ||
          ofOrigin(originOf(n)) === ORIGIN_LIMIT;
        assert.ok(!mayStart(each) || isHeldBack, `lane ${each.webhookId} waits for nothing`);
      }
    }
    for (const attempt of open) end(queue, attempt);
  };
  fc.assert(fc.property(fc.array(anyStep, { maxLength: 150 }), property), { numRuns: 300 });
});

test('an attempt is a probe if the breaker was open when it started', () => {
  const queue = new RunQueue(limits, hasWork);
  const [before, after] = lanesWith(2);
  assert.ok(before !== undefined && after !== undefined);
  const open = { pausedUntilMs: 0, breaker: { failedProbes: 0, probeAtMs: 0 } };
  queue.enqueue(before);
  const early = queue.dequeue();
  for (const lane of [before, after]) lane.startConditions.backoff = open;
  queue.enqueue(after);
  assert.deepEqual([early?.isProbe, queue.dequeue()?.isProbe], [false, true]);
});
