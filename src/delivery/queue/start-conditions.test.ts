import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_BACKOFF } from '../policy/backoff.ts';
import { StartConditions } from './lane-limits.ts';

function gateWith(backoff: Partial<StartConditions['backoff']>): StartConditions {
  const startConditions = new StartConditions();
  startConditions.backoff = { ...NO_BACKOFF, ...backoff };
  return startConditions;
}

test('a gate that nothing was said of is open', () => {
  assert.equal(new StartConditions().canStart(31, 0), true);
});

test('a pause ends when it says', () => {
  const startConditions = gateWith({ pausedUntilMs: 1_000 });
  assert.deepEqual([startConditions.canStart(0, 999), startConditions.canStart(0, 1_000)], [false, true]);
});

test('while the breaker is open one exchange is made at a time', () => {
  const startConditions = gateWith({ breaker: { failedProbes: 0, probeAtMs: 1_000 } });
  assert.deepEqual(
    [startConditions.canStart(0, 999), startConditions.canStart(0, 1_000), startConditions.canStart(1, 1_000)],
    [false, true, false],
  );
});

test('a probe waits for a pause that is longer, and a pause for the probe', () => {
  const breaker = { failedProbes: 0, probeAtMs: 1_000 };
  assert.equal(gateWith({ breaker, pausedUntilMs: 5_000 }).earliestStartMs, 5_000);
  assert.equal(gateWith({ breaker, pausedUntilMs: 500 }).earliestStartMs, 1_000);
});

test('what starts while the breaker is open is a probe, until it ended', () => {
  const startConditions = gateWith({ breaker: { failedProbes: 0, probeAtMs: 0 } });
  assert.equal(startConditions.isProbing, false);
  startConditions.attemptStarted();
  assert.equal(startConditions.isProbing, true);
  startConditions.attemptEnded();
  assert.equal(startConditions.isProbing, false);
});

test('what was under way when the breaker opened is no probe', () => {
  const startConditions = new StartConditions();
  startConditions.attemptStarted();
  startConditions.backoff = { ...NO_BACKOFF, breaker: { failedProbes: 0, probeAtMs: 0 } };
  assert.equal(startConditions.isProbing, false);
});

test('a paced lane waits for its pace, whatever else is over', () => {
  const startConditions = gateWith({ pausedUntilMs: 100 });
  startConditions.applyRateLimit(10, 1_000);
  assert.deepEqual([startConditions.canStart(0, 1_099), startConditions.canStart(0, 1_100)], [false, true]);
});
