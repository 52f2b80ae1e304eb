import assert from 'node:assert/strict';
import { test } from 'node:test';
import { breakerAfter, restoreBreaker, type Breaker } from './breaker.ts';

const failure = { effect: 'failure' as const, failures: 5, isProbe: false, nowMs: 1_000, random: 0 };
const open: Breaker = { failedProbes: 0, probeAtMs: 11_000 };

test('the breaker opens at the fifth failure in a row', () => {
  const opened = [1, 4, 5, 6].map((failures) => breakerAfter(null, { ...failure, failures }) !== null);
  assert.deepEqual(opened, [false, false, true, true]);
});

test('probes are 10 s apart at first, then twice as long each time, up to 5 minutes', () => {
  let breaker = breakerAfter(null, failure);
  const gaps: number[] = [];
  for (let nowMs = 1_000; gaps.length < 8 && breaker !== null;) {
    gaps.push((breaker.probeAtMs - nowMs) / 1_000);
    nowMs = breaker.probeAtMs;
    breaker = breakerAfter(breaker, { ...failure, failures: 5 + gaps.length, isProbe: true, nowMs });
  }
  assert.deepEqual(gaps, [10, 20, 40, 80, 160, 300, 300, 300]);
});

test('a gap between probes is lengthened by up to 20 %', () => {
  assert.equal(breakerAfter(null, { ...failure, random: 0.5 })?.probeAtMs, 12_000);
  const probed = breakerAfter(open, { ...failure, isProbe: true, nowMs: 11_000, random: 1 });
  assert.equal(probed?.probeAtMs, 11_000 + 24_000);
});

test('a success closes it, of a probe as of what was under way before', () => {
  assert.equal(breakerAfter(open, { ...failure, effect: 'success', failures: 0, isProbe: true }), null);
  assert.equal(breakerAfter(open, { ...failure, effect: 'success', failures: 0 }), null);
});

test('what was under way when it opened and fails later puts no probe off', () => {
  assert.deepEqual(breakerAfter(open, { ...failure, failures: 32, nowMs: 5_000 }), open);
});

test('a pause and a fault of our own open nothing', () => {
  assert.equal(breakerAfter(null, { ...failure, effect: 'nothing', failures: 5 }), null);
});

test('a probe that ends so counts as none: the next one comes as soon as a first one, also after long gaps', () => {
  const rare: Breaker = { failedProbes: 7, probeAtMs: 0 };
  const after = breakerAfter(rare, { ...failure, effect: 'nothing', isProbe: true, nowMs: 50_000 });
  assert.deepEqual(after, { failedProbes: 7, probeAtMs: 60_000 });
});

test('an owner goes on where the one before stopped', () => {
  assert.deepEqual(restoreBreaker({ failures: 7, waitMs: 30_000 }, 500), { failedProbes: 2, probeAtMs: 30_500 });
  assert.deepEqual(restoreBreaker({ failures: 7, waitMs: -30_000 }, 500), { failedProbes: 2, probeAtMs: 500 });
  assert.equal(restoreBreaker({ failures: 4, waitMs: 30_000 }, 500), null);
});

test('what the table says is never longer than the longest gap', () => {
  assert.equal(restoreBreaker({ failures: 9, waitMs: 3_600_000 }, 500)?.probeAtMs, 500 + 360_000);
});
