import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../exchange/outcome.ts';
import { deactivates, isHalfWay, whyCondemned } from './deactivation.ts';
import { healthAfter, type Health, type RetryProfile } from './policy.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const settings = { deactivateAfterFailures: 12, deactivateAfterSeconds: { hour: 3_600, long: 272_105 } };
const reply = { code: 500, headers: '', body: '' };
const failed: Outcome = { kind: 'refused', reply, retryAfterMs: 0 };
const busy: Outcome = { kind: 'refused', reply: { ...reply, code: 503 }, retryAfterMs: 1_000 };
const delivered: Outcome = { kind: 'delivered', reply };
const ours: Outcome = { kind: 'ours', why: 'EAI_AGAIN', reply: null };

type Attempt = { atMs: number; outcome: Outcome };
/** So many failures, evenly from the first minute on. */
const failures = (count: number, spanMs: number): Attempt[] =>
  Array.from({ length: count }, (_, index) => ({ atMs: (spanMs * index) / (count - 1), outcome: failed }));

/** When (in ms) the rule is met first; undefined: never. */
const endOf = (
  attempts: readonly Attempt[],
  profile: RetryProfile = 'hour',
  rule = deactivates,
): number | undefined => {
  let health: Health = { consecutiveFailures: 0, firstFailureAt: null };
  for (const { atMs, outcome } of attempts) {
    const now = new Date(Date.UTC(2026, 10, 21) + atMs);
    health = healthAfter(health, outcome, now);
    if (rule(health, outcome, now, profile, settings)) return atMs;
  }
  return undefined;
};

const cases: readonly [string, readonly Attempt[], number | undefined, RetryProfile?][] = [
  ['12 failures over the span do', failures(12, HOUR), HOUR],
  ['12 failures within 5 minutes do not', failures(12, 5 * MINUTE), undefined],
  ['12 failures over a second less than the span do not', failures(12, HOUR - SECOND), undefined],
  ['11 failures over the span do not', failures(11, 2 * HOUR), undefined],
  ['the 12th failure does, when the span is over before', failures(20, 19 * HOUR), 11 * HOUR],
  [
    '10,000 failures in 5 minutes, then a success, do not',
    [...failures(10_000, 5 * MINUTE), { atMs: 2 * HOUR, outcome: delivered }],
    undefined,
  ],
  [
    'a success between resets the count and the span',
    [
      ...failures(11, 50 * MINUTE),
      { atMs: 51 * MINUTE, outcome: delivered },
      ...failures(12, 59 * MINUTE).map(({ atMs, outcome }) => ({ atMs: HOUR + atMs, outcome })),
    ],
    undefined,
  ],
  [
    'a pause is not counted',
    [...failures(11, HOUR), { atMs: 2 * HOUR, outcome: busy }, { atMs: 3 * HOUR, outcome: failed }],
    3 * HOUR,
  ],
  [
    'a fault of our own is not counted, and does not deactivate although the rule would be met',
    [...failures(12, 5 * MINUTE), { atMs: 2 * HOUR, outcome: ours }],
    undefined,
  ],
  ['410 does at once', [{ atMs: 0, outcome: { kind: 'gone', reply } }], 0],
  ['12 failures in an hour do not where the profile is long', failures(12, HOUR), undefined, 'long'],
  ['12 failures over its span do', failures(12, 272_105 * SECOND), 272_105 * SECOND, 'long'],
];

for (const [name, attempts, at, profile] of cases) {
  test(`deactivation: ${name}`, () => assert.equal(endOf(attempts, profile), at));
}

test('whoever meets the rule was condemned by its failures, whoever does not by a 410', () => {
  const firstFailureAt = new Date(0);
  const why = (consecutiveFailures: number, atMs: number) =>
    whyCondemned({ consecutiveFailures, firstFailureAt }, new Date(atMs), 'hour', settings);
  assert.deepEqual(
    [why(12, HOUR), why(11, HOUR), why(12, HOUR - SECOND), why(1, 0)],
    ['failures', 'gone', 'gone', 'gone'],
  );
});

test('half the way is half of the failures and half of the span', () => {
  assert.equal(
    endOf(failures(12, HOUR), 'hour', isHalfWay),
    (6 * HOUR) / 11,
    'the seventh: the sixth is 27 minutes in',
  );
  assert.equal(endOf(failures(5, 3 * HOUR), 'hour', isHalfWay), undefined);
  assert.equal(endOf(failures(100, 29 * MINUTE), 'hour', isHalfWay), undefined);
});
