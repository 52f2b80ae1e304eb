import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outcomeOfReply, type Outcome } from '../attempt/http/attempt-outcome.ts';
import {
  HEALTHY,
  UNKNOWN,
  attemptsMaxOf,
  effectOf,
  faultUnitsIn,
  faultsAfter,
  healthAfter,
  pauseMsOf,
  nextStepAfter,
} from './policy.ts';

const MINUTE = 60_000;
const now = new Date('2026-11-21T12:00:00Z');
const given = { attempt: 1, faults: 0, profile: 'hour' as const, random: 0 };
const reply = { code: 500, headers: '', body: '' };
const refused: Outcome = { kind: 'refused', reply, retryAfterMs: 0 };
const delivered: Outcome = { kind: 'delivered', reply: { ...reply, code: 204 } };
const internal: Outcome = { kind: 'internal', why: 'EAI_AGAIN', reply: null };

test('the profile hour makes 12 attempts with the gaps of the contract', () => {
  const gaps = Array.from({ length: 11 }, (_, index) => {
    const nextStep = nextStepAfter(refused, { ...given, attempt: index + 1, profile: 'hour', random: 0 });
    return nextStep.kind === 'retry' ? nextStep.afterMs / MINUTE : nextStep.kind;
  });
  assert.deepEqual(gaps, [1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13]);
  assert.deepEqual(nextStepAfter(refused, { ...given, attempt: 12, profile: 'hour', random: 0 }), { kind: 'failed' });
});

test('the profile long makes 10 attempts with the gaps of the contract', () => {
  const gaps = Array.from({ length: 10 }, (_, index) => {
    const nextStep = nextStepAfter(refused, { ...given, attempt: index + 1, profile: 'long' });
    return nextStep.kind === 'retry' ? nextStep.afterMs / 1_000 : nextStep.kind;
  });
  const HOUR_S = 3_600;
  const hours = [2, 5, 10, 14, 20, 24].map((count) => count * HOUR_S);
  assert.deepEqual(gaps, [5, 300, 1_800, ...hours, 'failed']);
});

test('a gap is lengthened by up to 20 % and never shortened', () => {
  const atMost = nextStepAfter(refused, { ...given, attempt: 3, profile: 'hour', random: 0.999_999 });
  assert.ok(atMost.kind === 'retry' && atMost.afterMs > 2.39 * MINUTE && atMost.afterMs <= 2.4 * MINUTE);
});

test('Retry-After pauses the webhook, for an hour at most', () => {
  const asked = (seconds: number): Outcome => ({ kind: 'refused', reply, retryAfterMs: seconds * 1000 });
  assert.deepEqual([300, 999_999].map(asked).map(pauseMsOf), [300_000, 3_600_000]);
  assert.deepEqual(nextStepAfter(asked(300), given), { kind: 'retry', afterMs: 300_000 });
  assert.deepEqual(nextStepAfter(asked(999_999), given), { kind: 'retry', afterMs: 3_600_000 });
  assert.deepEqual(nextStepAfter(asked(1), given), { kind: 'retry', afterMs: MINUTE }, 'never sooner than the gap');
});

test('only a response asks for a pause, and the shortest one says nothing about the endpoint', () => {
  assert.deepEqual([delivered, internal].map(pauseMsOf), [0, 0]);
  assert.equal(effectOf({ kind: 'refused', reply, retryAfterMs: 1 }), 'nothing');
});

test('a success ends a delivery, and so does an environmental fault of 72 hours', () => {
  assert.deepEqual(nextStepAfter(delivered, given), { kind: 'successful' });
  const faults = faultUnitsIn(72 * 60 * MINUTE);
  assert.deepEqual(nextStepAfter(internal, { ...given, faults }), { kind: 'failed' });
  assert.equal(nextStepAfter(internal, { ...given, faults: faults - 1 }).kind, 'retry');
});

test('410 ends a delivery at once', () => {
  assert.deepEqual(nextStepAfter({ kind: 'gone', reply }, { ...given, attempt: 1, profile: 'hour', random: 0 }), {
    kind: 'failed',
  });
});

/** How long a delivery lives when every attempt ends with this outcome. */
function enduredMs(outcome: Outcome): number {
  let faults = 0;
  for (let ms = 0; ;) {
    faults = faultsAfter(faults, outcome);
    const nextStep = nextStepAfter(outcome, { ...given, attempt: 40, faults });
    if (nextStep.kind !== 'retry') return ms;
    ms += nextStep.afterMs;
  }
}

test('an environmental fault is retried for 72 hours, regardless of the number of attempts', () => {
  assert.equal(enduredMs(internal), 72 * 60 * MINUTE - 150_000);
});

test('the intervals between environmental faults double, from 30 s to 5 minutes', () => {
  const gaps: number[] = [];
  let faults = 0;
  while (gaps.length < 7) {
    faults = faultsAfter(faults, internal);
    const nextStep = nextStepAfter(internal, { ...given, faults });
    gaps.push(nextStep.kind === 'retry' ? nextStep.afterMs / 1_000 : 0);
  }
  assert.deepEqual(gaps, [30, 60, 120, 240, 300, 300, 300]);
});

test('an attempt that throws is repeated eleven times, uncharged', () => {
  assert.equal(enduredMs({ kind: 'threw', why: 'TypeError', reply: null }), 11 * 30_000);
});

test('internal faults are counted consecutively: a response resets the count', () => {
  assert.deepEqual(
    [faultsAfter(8_639, refused), faultsAfter(8_639, internal), faultsAfter(0, internal)],
    [0, 8_649, 1],
  );
});

test('failures count up, a success resets, a pause and internal faults leave the count unchanged', () => {
  const one = healthAfter(HEALTHY, refused, now);
  assert.deepEqual(one, { consecutiveFailures: 1, firstFailureAt: now, isWarned: false, hasSucceeded: false });
  const two = healthAfter(one, { kind: 'timed_out', phase: 'answer', reply: null }, new Date('2026-11-21T12:05:00Z'));
  assert.deepEqual(two, { consecutiveFailures: 2, firstFailureAt: now, isWarned: false, hasSucceeded: false });
  assert.deepEqual(healthAfter(two, internal, now), two);
  assert.deepEqual(healthAfter(two, { kind: 'refused', reply, retryAfterMs: 1_000 }, now), two);
  assert.deepEqual(healthAfter(two, delivered, now), HEALTHY);
  assert.deepEqual(
    [UNKNOWN, HEALTHY].map(({ hasSucceeded }) => hasSucceeded),
    [false, true],
  );
});

test('a status maps to an outcome', () => {
  const kindOf = (code: number) => outcomeOfReply({ ...reply, code }, '5', now).kind;
  assert.deepEqual([200, 204, 299, 301, 404, 410, 500].map(kindOf), [
    'delivered',
    'delivered',
    'delivered',
    'refused',
    'refused',
    'gone',
    'refused',
  ]);
});

test('Retry-After is respected on 429 and 503 only', () => {
  const pauseOf = (code: number) => {
    const outcome = outcomeOfReply({ ...reply, code }, '5', now);
    return outcome.kind === 'refused' ? outcome.retryAfterMs : undefined;
  };
  assert.deepEqual([429, 503, 500].map(pauseOf), [5_000, 5_000, 0]);
});

for (const profile of ['hour', 'long'] as const)
  test(`the number of attempts of the profile ${profile} is the one after which a delivery fails`, () => {
    const max = attemptsMaxOf(profile);
    const after = (attempt: number) => nextStepAfter(refused, { attempt, faults: 0, profile, random: 0 }).kind;
    assert.deepEqual([after(max - 1), after(max)], ['retry', 'failed']);
  });
