import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_BACKOFF } from '../policy/policy.ts';
import { StartConditions } from './lane-limits.ts';

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
