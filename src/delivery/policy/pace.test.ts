import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paceAfter } from './pace.ts';

/** When deliveries of a lane that has many start, if it is looked at every `everyMs`. */
const startsOf = (ratePerSecond: number, everyMs: number, forMs: number): number[] => {
  const starts: number[] = [];
  let paceAtMs = Number.NEGATIVE_INFINITY;
  for (let nowMs = 0; nowMs < forMs; nowMs += everyMs) {
    while (paceAtMs <= nowMs) {
      starts.push(nowMs);
      paceAtMs = paceAfter(paceAtMs, ratePerSecond, nowMs);
    }
  }
  return starts;
};

test('the pace is exact on average, however coarse the looks', () => {
  for (const rate of [1, 7, 10, 100, 1_000]) {
    const started = startsOf(rate, 20, 60_000).length;
    // All that are due by the last look.
    assert.ok(started >= Math.floor(rate * 59.98) && started <= rate * 60, `${started} in a minute at ${rate}/s`);
  }
});

test('deliveries are spaced evenly', () => {
  assert.deepEqual(startsOf(10, 20, 500), [0, 100, 200, 300, 400]);
  assert.deepEqual(startsOf(1, 250, 3_000), [0, 1_000, 2_000]);
});

test('what was not used is not saved up', () => {
  assert.equal(paceAfter(0, 10, 60_000), 60_100);
  assert.equal(paceAfter(Number.NEGATIVE_INFINITY, 1_000, 60_000), 60_001);
});

test('a start that was late brings the next one no later, up to a tenth of a second', () => {
  assert.equal(paceAfter(1_000, 10, 1_090), 1_100);
  assert.equal(paceAfter(1_000, 10, 1_101), 1_201);
});

test('a new rate counts from the next start on', () => {
  const slow = paceAfter(0, 1, 0);
  assert.equal(slow, 1_000);
  assert.equal(paceAfter(slow, 1_000, 1_000), 1_001);
});
