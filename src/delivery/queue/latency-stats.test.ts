import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../attempt/http/outcome.ts';
import { Tempo } from './latency-stats.ts';

const reply = { code: 200, headers: '', body: '' };
const delivered: Outcome = { kind: 'delivered', reply };
const refused: Outcome = { kind: 'refused', reply: { ...reply, code: 500 }, retryAfterMs: 0 };
const timedOut: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const unreachable: Outcome = { kind: 'unreachable', why: 'connect', reply: null };
const fast = { durationMs: 20, isSlow: false, alongside: 1, isWaiting: true, isOurs: false };
const slow = { durationMs: 2_000, isSlow: true, alongside: 1, isWaiting: true, isOurs: false };

const tempoAfter = (...landed: [Outcome, typeof fast][]): Tempo => {
  const tempo = new Tempo({ slotsPerLane: 32, slotsPerSlowLane: 2 });
  for (const [outcome, exchange] of landed) tempo.learn(outcome, exchange);
  return tempo;
};

test('a lane is as fast as its last exchange was, whatever the status', () => {
  assert.equal(tempoAfter().speed('unproven'), 'unproven');
  assert.equal(tempoAfter([delivered, fast]).speed('unproven'), 'proven');
  assert.equal(tempoAfter([refused, fast]).speed('slow'), 'proven');
  assert.equal(tempoAfter([delivered, fast], [delivered, slow]).speed('unproven'), 'slow');
  assert.equal(tempoAfter([delivered, fast], [timedOut, slow]).speed('slow'), 'slow');
  assert.equal(tempoAfter([delivered, fast], [unreachable, fast]).speed('slow'), 'proven');
  assert.equal(tempoAfter([timedOut, slow], [delivered, fast]).speed('unproven'), 'proven');
});

test('a lane is what is recorded of it until an exchange has told more', () => {
  assert.equal(tempoAfter().speed('slow'), 'slow');
  assert.equal(tempoAfter([unreachable, fast]).speed('slow'), 'slow');
  assert.equal(tempoAfter().speed('proven'), 'proven');
  assert.equal(tempoAfter([timedOut, slow]).speed('proven'), 'slow');
});

test('a lane is slow while an exchange is late, and is what it was when that came back in time', () => {
  const tempo = tempoAfter([delivered, fast]);
  tempo.turnedLate();
  tempo.turnedLate();
  tempo.ended(true);
  tempo.learn(delivered, fast);
  assert.equal(tempo.speed('unproven'), 'slow', 'the other one is still under way');
  tempo.ended(true);
  assert.equal(tempo.speed('unproven'), 'proven');
});

test('a slow lane has few at once, and again as many as before when it is fast again', () => {
  const tempo = tempoAfter(
    ...Array.from({ length: 9 }, (_, n): [Outcome, typeof fast] => [delivered, { ...fast, alongside: n + 1 }]),
  );
  assert.equal(tempo.atOnce, 10);
  tempo.turnedLate();
  assert.equal(tempo.atOnce, 2);
  tempo.ended(true);
  assert.equal(tempo.atOnce, 10);
});

test('an exchange is late earlier where the endpoint is known to be fast', () => {
  const lateAfter = (durationMs: number) => tempoAfter([delivered, { ...fast, durationMs }]).lateAfterMs(1_000);
  assert.equal(tempoAfter().lateAfterMs(1_000), 1_000);
  assert.equal(lateAfter(2), 150);
  assert.equal(lateAfter(50), 400);
  assert.equal(lateAfter(800), 1_000);
});
