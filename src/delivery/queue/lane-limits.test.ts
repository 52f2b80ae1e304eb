import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyLimit, LatencyStats, StartConditions } from './lane-limits.ts';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { NO_BACKOFF } from '../policy/policy.ts';

const MAX = 32;

/**
 * An endpoint that is sent `count` deliveries, one every `everyMs`, as many at once as the limit allows; `tookMs` is the duration of
 * an exchange that begins as the `alongside`-th. Returns the maximum and the final limit.
 */
function simulate(given: { count: number; everyMs: number; tookMs: (inFlight: number) => number }) {
  const concurrency = new ConcurrencyLimit(MAX);
  const ends: { atMs: number; durationMs: number; inFlight: number }[] = [];
  let [nowMs, sent, highest] = [0, 0, 1];
  const waiting = () => Math.min(given.count, Math.floor(nowMs / given.everyMs) + 1) - sent;
  while (sent < given.count || ends.length > 0) {
    while (waiting() > 0 && ends.length < concurrency.limit) {
      const inFlight = ends.length + 1;
      const durationMs = given.tookMs(inFlight);
      ends.push({ atMs: nowMs + durationMs, durationMs, inFlight });
      sent += 1;
    }
    ends.sort((a, b) => a.atMs - b.atMs);
    const [next] = ends;
    const arrivalMs = sent < given.count && waiting() <= 0 ? sent * given.everyMs : Number.POSITIVE_INFINITY;
    if (next === undefined || arrivalMs < next.atMs) {
      nowMs = arrivalMs;
      continue;
    }
    nowMs = next.atMs;
    ends.shift();
    concurrency.recordSuccess({ ...next, hasMoreToSend: waiting() > 0, loopIsLagging: false });
    highest = Math.max(highest, concurrency.limit);
  }
  return { highest, last: concurrency.limit };
}

// The concurrency limit

test('a lane whose rate needs one exchange at a time stays at one', () => {
  assert.equal(simulate({ count: 1_000, everyMs: 20, tookMs: () => 10 }).highest, 1);
});

test('the limit is about the rate times the latency', () => {
  const { highest } = simulate({ count: 2_000, everyMs: 10, tookMs: () => 100 });
  assert.ok(highest >= 10 && highest <= 20, `100 a second of 100 ms each are 10 at once, and it was ${highest}`);
});

test('a burst to an endpoint with capacity is sent as wide as allowed', () => {
  assert.equal(simulate({ count: 1_000, everyMs: 0.01, tookMs: () => 50 }).last, MAX);
});

test('an endpoint that works sequentially gets few concurrent requests', () => {
  const { highest } = simulate({ count: 1_000, everyMs: 0.01, tookMs: (inFlight) => 20 * inFlight });
  assert.ok(highest <= 3, `it was ${highest}`);
});

test('an endpoint that becomes permanently slower is not treated as overloaded', () => {
  const concurrency = new ConcurrencyLimit(MAX);
  const sendOne = (durationMs: number) =>
    concurrency.recordSuccess({ durationMs, inFlight: concurrency.limit, hasMoreToSend: true, loopIsLagging: false });
  concurrency.recordSuccess({ durationMs: 20, inFlight: 1, hasMoreToSend: false, loopIsLagging: false });
  for (let n = 0; n < 1_000; n += 1) sendOne(200);
  assert.ok(concurrency.limit > 8, `it was ${concurrency.limit}`);
});

test('while our own event loop lags, no limit grows and no endpoint counts as slower', () => {
  const concurrency = new ConcurrencyLimit(MAX);
  concurrency.recordSuccess({ durationMs: 10, inFlight: 1, hasMoreToSend: true, loopIsLagging: true });
  concurrency.recordSuccess({ durationMs: 40, inFlight: 1, hasMoreToSend: true, loopIsLagging: true });
  assert.equal(concurrency.limit, 1);
  assert.equal(concurrency.bestMs, 10);
});

test('while our own event loop lags, lower limits are better', () => {
  const concurrency = new ConcurrencyLimit(MAX);
  for (let n = 1; n <= 10; n += 1)
    concurrency.recordSuccess({ durationMs: 10, inFlight: n, hasMoreToSend: true, loopIsLagging: false });
  for (let n = 0; n < 5; n += 1)
    concurrency.recordSuccess({
      durationMs: 100,
      inFlight: concurrency.limit,
      hasMoreToSend: true,
      loopIsLagging: true,
    });
  assert.equal(concurrency.limit, 6);
});

test('a time-out reduces the limit to one', () => {
  const concurrency = new ConcurrencyLimit(MAX);
  for (let n = 1; n <= 10; n += 1)
    concurrency.recordSuccess({ durationMs: 10, inFlight: n, hasMoreToSend: true, loopIsLagging: false });
  assert.equal(concurrency.limit, 11);
  concurrency.recordTimeout();
  assert.equal(concurrency.limit, 1);
});

// Latency statistics

const reply = { code: 200, headers: '', body: '' };
const delivered: Outcome = { kind: 'delivered', reply };
const refused: Outcome = { kind: 'refused', reply: { ...reply, code: 500 }, retryAfterMs: 0 };
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const unreachable: Outcome = { kind: 'unreachable', why: 'connect', reply: null };
const fast = { durationMs: 20, isSlow: false, inFlight: 1, hasMoreToSend: true, loopIsLagging: false };
const slow = { durationMs: 2_000, isSlow: true, inFlight: 1, hasMoreToSend: true, loopIsLagging: false };

function statsAfter(...landed: [Outcome, typeof fast][]): LatencyStats {
  const latency = new LatencyStats({ slotsPerLane: 32, slotsPerSlowLane: 2 });
  for (const [outcome, exchange] of landed) latency.record(outcome, exchange);
  return latency;
}

test('a lane is as fast as its last exchange, whatever the status', () => {
  assert.equal(statsAfter().speed('new'), 'new');
  assert.equal(statsAfter([delivered, fast]).speed('new'), 'fast');
  assert.equal(statsAfter([refused, fast]).speed('slow'), 'fast');
  assert.equal(statsAfter([delivered, fast], [delivered, slow]).speed('new'), 'slow');
  assert.equal(statsAfter([delivered, fast], [timedOut, slow]).speed('slow'), 'slow');
  assert.equal(statsAfter([delivered, fast], [unreachable, fast]).speed('slow'), 'fast');
  assert.equal(statsAfter([timedOut, slow], [delivered, fast]).speed('new'), 'fast');
});

test('a lane has its recorded speed until an exchange shows another', () => {
  assert.equal(statsAfter().speed('slow'), 'slow');
  assert.equal(statsAfter([unreachable, fast]).speed('slow'), 'slow');
  assert.equal(statsAfter().speed('fast'), 'fast');
  assert.equal(statsAfter([timedOut, slow]).speed('fast'), 'slow');
});

test('a lane is slow while an exchange is late, and returns to its speed when that one ends in time', () => {
  const latency = statsAfter([delivered, fast]);
  latency.attemptBecameSlow();
  latency.attemptBecameSlow();
  latency.attemptEnded(true);
  latency.record(delivered, fast);
  assert.equal(latency.speed('new'), 'slow', 'the other one is still running');
  latency.attemptEnded(true);
  assert.equal(latency.speed('new'), 'fast');
});

test('a slow lane has a low limit, and its former one when it is fast again', () => {
  const latency = statsAfter(
    ...Array.from({ length: 9 }, (_, n): [Outcome, typeof fast] => [delivered, { ...fast, inFlight: n + 1 }]),
  );
  assert.equal(latency.maxInFlight, 10);
  latency.attemptBecameSlow();
  assert.equal(latency.maxInFlight, 2);
  latency.attemptEnded(true);
  assert.equal(latency.maxInFlight, 10);
});

test('an exchange is late earlier if the endpoint is known to be fast', () => {
  const lateAfter = (durationMs: number) => statsAfter([delivered, { ...fast, durationMs }]).timeBudgetMs(1_000);
  assert.equal(statsAfter().timeBudgetMs(1_000), 1_000);
  assert.equal(lateAfter(2), 150);
  assert.equal(lateAfter(50), 400);
  assert.equal(lateAfter(800), 1_000);
});

// When a lane may start

function conditionsWith(backoff: Partial<StartConditions['backoff']>): StartConditions {
  const startConditions = new StartConditions();
  startConditions.backoff = { ...NO_BACKOFF, ...backoff };
  return startConditions;
}

test('start conditions without any state allow a start', () => {
  assert.equal(new StartConditions().canStart(31, 0), true);
});

test('a pause ends at its time', () => {
  const startConditions = conditionsWith({ pausedUntilMs: 1_000 });
  assert.deepEqual([startConditions.canStart(0, 999), startConditions.canStart(0, 1_000)], [false, true]);
});

test('while the breaker is open one exchange runs at a time', () => {
  const startConditions = conditionsWith({ breaker: { failedProbes: 0, probeAtMs: 1_000 } });
  assert.deepEqual(
    [startConditions.canStart(0, 999), startConditions.canStart(0, 1_000), startConditions.canStart(1, 1_000)],
    [false, true, false],
  );
});

test('a probe waits for a longer pause, and a pause for the probe', () => {
  const breaker = { failedProbes: 0, probeAtMs: 1_000 };
  assert.equal(conditionsWith({ breaker, pausedUntilMs: 5_000 }).earliestStartMs, 5_000);
  assert.equal(conditionsWith({ breaker, pausedUntilMs: 500 }).earliestStartMs, 1_000);
});

test('a rate-limited lane waits for its rate, whatever else has expired', () => {
  const startConditions = conditionsWith({ pausedUntilMs: 100 });
  startConditions.applyRateLimit(10, 1_000);
  assert.deepEqual([startConditions.canStart(0, 1_099), startConditions.canStart(0, 1_100)], [false, true]);
});
