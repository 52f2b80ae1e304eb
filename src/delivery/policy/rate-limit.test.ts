import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextStartAfter } from './rate-limit.ts';

/** When deliveries of a lane that has many start, if it is looked at every `everyMs`. */
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
  assert.equal(nextStartAfter(0, 10, 60_000), 60_100);
  assert.equal(nextStartAfter(Number.NEGATIVE_INFINITY, 1_000, 60_000), 60_001);
});

test('a start that was late brings the next one no later, up to a tenth of a second', () => {
  assert.equal(nextStartAfter(1_000, 10, 1_090), 1_100);
  assert.equal(nextStartAfter(1_000, 10, 1_101), 1_201);
});

test('a new rate counts from the next start on', () => {
  const slow = nextStartAfter(0, 1, 0);
  assert.equal(slow, 1_000);
  assert.equal(nextStartAfter(slow, 1_000, 1_000), 1_001);
});
