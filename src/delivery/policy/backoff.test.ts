import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  NO_BACKOFF,
  backoffAfter,
  breakerAfter,
  fromStored,
  nextStartAfter,
  restoreBreaker,
  toStored,
  type Breaker,
} from './policy.ts';

const MINUTE = 60_000;
const now = new Date('2026-11-21T12:00:00Z');
const moment = { now, nowMs: 5_000_000 };
const inMs = (ms: number): Date => new Date(now.getTime() + ms);
const asked = { effect: 'nothing' as const, pauseMs: 0, failures: 0, isProbe: false, nowMs: moment.nowMs, random: 0 };

test('a pause shorter than the present one changes nothing', () => {
  const paused = backoffAfter(NO_BACKOFF, { ...asked, pauseMs: 10 * MINUTE });
  assert.equal(paused.pausedUntilMs, moment.nowMs + 10 * MINUTE);
  assert.equal(backoffAfter(paused, { ...asked, pauseMs: MINUTE }), paused);
});

test('a success during a pause leaves the pause', () => {
  const paused = backoffAfter(NO_BACKOFF, { ...asked, pauseMs: MINUTE });
  assert.equal(backoffAfter(paused, { ...asked, effect: 'success' }), paused);
});

test('a pause while the breaker is open delays the next probe', () => {
  const open = { pausedUntilMs: 0, breaker: { failedProbes: 3, probeAtMs: 0 } };
  const held = backoffAfter(open, { ...asked, failures: 8, pauseMs: 10 * MINUTE, isProbe: true });
  assert.equal(held.pausedUntilMs, moment.nowMs + 10 * MINUTE);
  assert.equal(held.breaker?.failedProbes, 3);
});

test('the next owner reads the backoff that the last one wrote, on its own clock', () => {
  const backoff = {
    pausedUntilMs: moment.nowMs + MINUTE,
    breaker: { failedProbes: 2, probeAtMs: moment.nowMs + 30_000 },
  };
  const stored = toStored(backoff, moment);
  assert.deepEqual(stored, { pausedUntil: inMs(MINUTE), probeAt: inMs(30_000) });
  const later = { now: inMs(10_000), nowMs: 77 };
  assert.deepEqual(fromStored(stored, 7, later), {
    pausedUntilMs: 77 + 50_000,
    breaker: { failedProbes: 2, probeAtMs: 77 + 20_000 },
  });
});

test('an expired pause is not written', () => {
  assert.deepEqual(toStored({ pausedUntilMs: moment.nowMs, breaker: null }, moment), {
    pausedUntil: null,
    probeAt: null,
  });
});

test('a clock that was set back makes no pause longer than an hour', () => {
  const stored = { pausedUntil: inMs(300 * MINUTE), probeAt: null };
  assert.equal(fromStored(stored, 0, moment).pausedUntilMs, moment.nowMs + 60 * MINUTE);
});

test('a working webhook does not wait for a probe', () => {
  assert.equal(fromStored({ pausedUntil: null, probeAt: inMs(MINUTE) }, 0, moment).breaker, null);
});

const failure = { effect: 'failure' as const, failures: 5, isProbe: false, nowMs: 1_000, random: 0 };
const open: Breaker = { failedProbes: 0, probeAtMs: 11_000 };

test('the breaker opens at the fifth consecutive failure', () => {
  const opened = [1, 4, 5, 6].map((failures) => breakerAfter(null, { ...failure, failures }) !== null);
  assert.deepEqual(opened, [false, false, true, true]);
});

test('probes are 10 s apart at first, then at doubling intervals up to 5 minutes', () => {
  let breaker = breakerAfter(null, failure);
  const gaps: number[] = [];
  for (let nowMs = 1_000; gaps.length < 8 && breaker !== null;) {
    gaps.push((breaker.probeAtMs - nowMs) / 1_000);
    nowMs = breaker.probeAtMs;
    breaker = breakerAfter(breaker, { ...failure, failures: 5 + gaps.length, isProbe: true, nowMs });
  }
  assert.deepEqual(gaps, [10, 20, 40, 80, 160, 300, 300, 300]);
});

test('the interval between probes is lengthened by up to 20 %', () => {
  assert.equal(breakerAfter(null, { ...failure, random: 0.5 })?.probeAtMs, 12_000);
  const probed = breakerAfter(open, { ...failure, isProbe: true, nowMs: 11_000, random: 1 });
  assert.equal(probed?.probeAtMs, 11_000 + 24_000);
});

test('a success closes the breaker, of a probe as of an earlier attempt', () => {
  assert.equal(breakerAfter(open, { ...failure, effect: 'success', failures: 0, isProbe: true }), null);
  assert.equal(breakerAfter(open, { ...failure, effect: 'success', failures: 0 }), null);
});

test('an attempt started before the breaker opened does not delay the probe when it fails', () => {
  assert.deepEqual(breakerAfter(open, { ...failure, failures: 32, nowMs: 5_000 }), open);
});

test('a pause and an internal fault do not open the breaker', () => {
  assert.equal(breakerAfter(null, { ...failure, effect: 'nothing', failures: 5 }), null);
});

test('a probe that ends in a pause or an internal fault is repeated after the first interval, even after long ones', () => {
  const rare: Breaker = { failedProbes: 7, probeAtMs: 0 };
  const after = breakerAfter(rare, { ...failure, effect: 'nothing', isProbe: true, nowMs: 50_000 });
  assert.deepEqual(after, { failedProbes: 7, probeAtMs: 60_000 });
});

test('a new owner continues with the interval of the one before', () => {
  assert.deepEqual(restoreBreaker({ failures: 7, waitMs: 30_000 }, 500), { failedProbes: 2, probeAtMs: 30_500 });
  assert.deepEqual(restoreBreaker({ failures: 7, waitMs: -30_000 }, 500), { failedProbes: 2, probeAtMs: 500 });
  assert.equal(restoreBreaker({ failures: 4, waitMs: 30_000 }, 500), null);
});

test('a stored interval is never longer than the longest one', () => {
  assert.equal(restoreBreaker({ failures: 9, waitMs: 3_600_000 }, 500)?.probeAtMs, 500 + 360_000);
});

/** When deliveries of a lane with many start, if it is checked every `everyMs`. */
function startsOf(ratePerSecond: number, everyMs: number, forMs: number): number[] {
  const starts: number[] = [];
  let nextStartMs = Number.NEGATIVE_INFINITY;
  for (let nowMs = 0; nowMs < forMs; nowMs += everyMs) {
    while (nextStartMs <= nowMs) {
      starts.push(nowMs);
      nextStartMs = nextStartAfter(nextStartMs, ratePerSecond, nowMs);
    }
  }
  return starts;
}

test('the rate is exact on average, however coarse the checks', () => {
  for (const rate of [1, 7, 10, 100, 1_000]) {
    const started = startsOf(rate, 20, 60_000).length;
    // All that are due by the last check.
    assert.ok(started >= Math.floor(rate * 59.98) && started <= rate * 60, `${started} in a minute at ${rate}/s`);
  }
});

test('deliveries are spaced evenly', () => {
  assert.deepEqual(startsOf(10, 20, 500), [0, 100, 200, 300, 400]);
  assert.deepEqual(startsOf(1, 250, 3_000), [0, 1_000, 2_000]);
});

test('unused rate is not accumulated', () => {
  assert.equal(nextStartAfter(0, 10, 60_000), 60_100);
  assert.equal(nextStartAfter(Number.NEGATIVE_INFINITY, 1_000, 60_000), 60_001);
});

test('a late start does not delay the next one, up to a tenth of a second', () => {
  assert.equal(nextStartAfter(1_000, 10, 1_090), 1_100);
  assert.equal(nextStartAfter(1_000, 10, 1_101), 1_201);
});

test('a new rate applies from the next start', () => {
  const slow = nextStartAfter(0, 1, 0);
  assert.equal(slow, 1_000);
  assert.equal(nextStartAfter(slow, 1_000, 1_000), 1_001);
});
