import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_BACKOFF, fromStored, backoffAfter, toStored } from './backoff.ts';

const MINUTE = 60_000;
const now = new Date('2026-11-21T12:00:00Z');
const moment = { now, nowMs: 5_000_000 };
const inMs = (ms: number): Date => new Date(now.getTime() + ms);
const asked = { effect: 'nothing' as const, pauseMs: 0, failures: 0, isProbe: false, nowMs: moment.nowMs, random: 0 };

test('a pause that is shorter than the one there is changes nothing', () => {
  const paused = backoffAfter(NO_BACKOFF, { ...asked, pauseMs: 10 * MINUTE });
  assert.equal(paused.pausedUntilMs, moment.nowMs + 10 * MINUTE);
  assert.equal(backoffAfter(paused, { ...asked, pauseMs: MINUTE }), paused);
});

test('a success while it is paused leaves the pause', () => {
  const paused = backoffAfter(NO_BACKOFF, { ...asked, pauseMs: MINUTE });
  assert.equal(backoffAfter(paused, { ...asked, effect: 'success' }), paused);
});

test('a pause while the breaker is open holds the next probe', () => {
  const open = { pausedUntilMs: 0, breaker: { failedProbes: 3, probeAtMs: 0 } };
  const held = backoffAfter(open, { ...asked, failures: 8, pauseMs: 10 * MINUTE, isProbe: true });
  assert.equal(held.pausedUntilMs, moment.nowMs + 10 * MINUTE);
  assert.equal(held.breaker?.failedProbes, 3);
});

test('what one owner writes the next one reads, on a clock of its own', () => {
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

test('a pause that is over is not written', () => {
  assert.deepEqual(toStored({ pausedUntilMs: moment.nowMs, breaker: null }, moment), {
    pausedUntil: null,
    probeAt: null,
  });
});

test('a clock that was set back makes no pause longer than an hour', () => {
  const stored = { pausedUntil: inMs(300 * MINUTE), probeAt: null };
  assert.equal(fromStored(stored, 0, moment).pausedUntilMs, moment.nowMs + 60 * MINUTE);
});

test('the probe of a webhook that works is not waited for', () => {
  assert.equal(fromStored({ pausedUntil: null, probeAt: inMs(MINUTE) }, 0, moment).breaker, null);
});
