import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FREE } from '../policy/backoff.ts';
import { Gate } from './start-conditions.ts';

const gateWith = (hold: Partial<Gate['hold']>): Gate => {
  const gate = new Gate();
  gate.hold = { ...FREE, ...hold };
  return gate;
};

test('a gate that nothing was said of is open', () => {
  assert.equal(new Gate().admits(31, 0), true);
});

test('a pause ends when it says', () => {
  const gate = gateWith({ pausedUntilMs: 1_000 });
  assert.deepEqual([gate.admits(0, 999), gate.admits(0, 1_000)], [false, true]);
});

test('while the breaker is open one exchange is made at a time', () => {
  const gate = gateWith({ breaker: { failedProbes: 0, probeAtMs: 1_000 } });
  assert.deepEqual([gate.admits(0, 999), gate.admits(0, 1_000), gate.admits(1, 1_000)], [false, true, false]);
});

test('a probe waits for a pause that is longer, and a pause for the probe', () => {
  const breaker = { failedProbes: 0, probeAtMs: 1_000 };
  assert.equal(gateWith({ breaker, pausedUntilMs: 5_000 }).opensAtMs, 5_000);
  assert.equal(gateWith({ breaker, pausedUntilMs: 500 }).opensAtMs, 1_000);
});

test('what starts while the breaker is open is a probe, until it ended', () => {
  const gate = gateWith({ breaker: { failedProbes: 0, probeAtMs: 0 } });
  assert.equal(gate.isProbing, false);
  gate.started();
  assert.equal(gate.isProbing, true);
  gate.ended();
  assert.equal(gate.isProbing, false);
});

test('what was under way when the breaker opened is no probe', () => {
  const gate = new Gate();
  gate.started();
  gate.hold = { ...FREE, breaker: { failedProbes: 0, probeAtMs: 0 } };
  assert.equal(gate.isProbing, false);
});

test('a paced lane waits for its pace, whatever else is over', () => {
  const gate = gateWith({ pausedUntilMs: 100 });
  gate.paced(10, 1_000);
  assert.deepEqual([gate.admits(0, 1_099), gate.admits(0, 1_100)], [false, true]);
});
