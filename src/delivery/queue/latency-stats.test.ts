import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { LatencyStats } from './lane-limits.ts';

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
