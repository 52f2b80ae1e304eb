import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyLimit } from './lane-limits.ts';

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
