import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cap } from './concurrency-limit.ts';

const MAX = 32;

/**
 * An endpoint that is sent `count` deliveries, one every `everyMs`, as many at once as the cap allows; `tookMs` tells how long
 * an exchange takes that begins as the `alongside`-th. Answers what the cap was at most and in the end.
 */
const simulate = (given: { count: number; everyMs: number; tookMs: (alongside: number) => number }) => {
  const cap = new Cap(MAX);
  const ends: { atMs: number; durationMs: number; alongside: number }[] = [];
  let [nowMs, sent, highest] = [0, 0, 1];
  const waiting = () => Math.min(given.count, Math.floor(nowMs / given.everyMs) + 1) - sent;
  while (sent < given.count || ends.length > 0) {
    while (waiting() > 0 && ends.length < cap.limit) {
      const alongside = ends.length + 1;
      const durationMs = given.tookMs(alongside);
      ends.push({ atMs: nowMs + durationMs, durationMs, alongside });
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
    cap.succeeded({ ...next, isWaiting: waiting() > 0, isOurs: false });
    highest = Math.max(highest, cap.limit);
  }
  return { highest, last: cap.limit };
};

test('a lane that one exchange at once is enough for stays at one', () => {
  assert.equal(simulate({ count: 1_000, everyMs: 20, tookMs: () => 10 }).highest, 1);
});

test('a cap is about what the rate times the latency needs', () => {
  const { highest } = simulate({ count: 2_000, everyMs: 10, tookMs: () => 100 });
  assert.ok(highest >= 10 && highest <= 20, `100 a second of 100 ms each are 10 at once, and it was ${highest}`);
});

test('a burst to an endpoint that bears it is sent as wide as allowed', () => {
  assert.equal(simulate({ count: 1_000, everyMs: 0.01, tookMs: () => 50 }).last, MAX);
});

test('an endpoint that works off one by one is not asked many at once', () => {
  const { highest } = simulate({ count: 1_000, everyMs: 0.01, tookMs: (alongside) => 20 * alongside });
  assert.ok(highest <= 3, `it was ${highest}`);
});

test('an endpoint that grows slower for good is not taken for an overloaded one', () => {
  const cap = new Cap(MAX);
  const sendOne = (durationMs: number) =>
    cap.succeeded({ durationMs, alongside: cap.limit, isWaiting: true, isOurs: false });
  cap.succeeded({ durationMs: 20, alongside: 1, isWaiting: false, isOurs: false });
  for (let n = 0; n < 1_000; n += 1) sendOne(200);
  assert.ok(cap.limit > 8, `it was ${cap.limit}`);
});

test('while our own event loop takes the time, nothing grows, and nobody is taken for slower than he was', () => {
  const cap = new Cap(MAX);
  cap.succeeded({ durationMs: 10, alongside: 1, isWaiting: true, isOurs: true });
  cap.succeeded({ durationMs: 40, alongside: 1, isWaiting: true, isOurs: true });
  assert.equal(cap.limit, 1);
  assert.equal(cap.bestMs, 10);
});

test('while our own event loop takes the time, fewer at once are better', () => {
  const cap = new Cap(MAX);
  for (let n = 1; n <= 10; n += 1) cap.succeeded({ durationMs: 10, alongside: n, isWaiting: true, isOurs: false });
  for (let n = 0; n < 5; n += 1)
    cap.succeeded({ durationMs: 100, alongside: cap.limit, isWaiting: true, isOurs: true });
  assert.equal(cap.limit, 6);
});

test('a time-out brings it to one', () => {
  const cap = new Cap(MAX);
  for (let n = 1; n <= 10; n += 1) cap.succeeded({ durationMs: 10, alongside: n, isWaiting: true, isOurs: false });
  assert.equal(cap.limit, 11);
  cap.timedOut();
  assert.equal(cap.limit, 1);
});
