import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { HEALTHY, NO_BACKOFF, disableReason, healthAfter, requiresDisable, type Health } from './policy.ts';
import { decide } from './entry.ts';
import type { RetryProfile } from '../attempt/delivery-target.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const settings = { deactivateAfterFailures: 12, deactivateAfterSeconds: { hour: 3_600, long: 272_105 } };
const reply = { code: 500, headers: '', body: '' };
const failed: Outcome = { kind: 'refused', reply, retryAfterMs: 0 };
const busy: Outcome = { kind: 'refused', reply: { ...reply, code: 503 }, retryAfterMs: 1_000 };
const delivered: Outcome = { kind: 'delivered', reply };
const internal: Outcome = { kind: 'internal', why: 'EAI_AGAIN', reply: null };

type Attempt = { atMs: number; outcome: Outcome };
/** That many failures, evenly distributed from the first minute on. */
const failures = (count: number, spanMs: number): Attempt[] =>
  Array.from({ length: count }, (_, index) => ({ atMs: (spanMs * index) / (count - 1), outcome: failed }));

/** When (in ms) the rule is first met; undefined: never. */
function endOf(attempts: readonly Attempt[], profile: RetryProfile = 'hour'): number | undefined {
  let health: Health = HEALTHY;
  for (const { atMs, outcome } of attempts) {
    const now = new Date(Date.UTC(2026, 10, 21) + atMs);
    health = healthAfter(health, outcome, now);
    if (requiresDisable(health, outcome, now, profile, settings)) return atMs;
  }
  return undefined;
}

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
    'an internal fault is not counted, and does not deactivate although the rule would be met',
    [...failures(12, 5 * MINUTE), { atMs: 2 * HOUR, outcome: internal }],
    undefined,
  ],
  ['410 does at once', [{ atMs: 0, outcome: { kind: 'gone', reply } }], 0],
  ['12 failures in an hour do not on the profile long', failures(12, HOUR), undefined, 'long'],
  ['12 failures over the span of the profile long do', failures(12, 272_105 * SECOND), 272_105 * SECOND, 'long'],
];

for (const [name, attempts, at, profile] of cases) {
  test(`deactivation: ${name}`, () => assert.equal(endOf(attempts, profile), at));
}

test('a webhook that meets the rule is disabled for its failures, any other for a 410', () => {
  const firstFailureAt = new Date(0);
  const why = (consecutiveFailures: number, atMs: number) =>
    disableReason({ ...HEALTHY, consecutiveFailures, firstFailureAt }, new Date(atMs), 'hour', settings);
  assert.deepEqual(
    [why(12, HOUR), why(11, HOUR), why(12, HOUR - SECOND), why(1, 0)],
    ['failures', 'gone', 'gone', 'gone'],
  );
});

/** When (in ms) the store is warned, and when the webhook is first pending to be disabled. */
function lifeOf(attempts: readonly Attempt[], profile: RetryProfile = 'hour') {
  const warnedAtMs: number[] = [];
  let [health, backoff, isPendingDisable, pendingSinceMs] = [
    HEALTHY,
    NO_BACKOFF,
    false,
    undefined as number | undefined,
  ];
  for (const { atMs, outcome } of attempts) {
    const now = new Date(Date.UTC(2026, 10, 21) + atMs);
    const delivery = { id: 1, storeId: 1, webhookId: 1, epoch: 0, eventId: 1, attempts: 0, faults: 0, dueAt: now };
    const judged = decide({
      shard: 1,
      fence: 1,
      delivery,
      attempt: { startedAt: now, durationMs: 1, outcome },
      profile,
      health,
      backoff,
      isProbe: false,
      isPendingDisable,
      deactivation: settings,
      moment: { now, nowMs: atMs },
      random: 0,
    });
    ({ health, backoff, isPendingDisable } = judged);
    if (judged.entry.isWarning) warnedAtMs.push(atMs);
    if (isPendingDisable) pendingSinceMs ??= atMs;
  }
  return { warnedAtMs, pendingSinceMs };
}

test('a warning comes at half of the failures and half of the span, once per run of failures', () => {
  const evenly = lifeOf(failures(12, HOUR));
  assert.deepEqual(evenly, { warnedAtMs: [(6 * HOUR) / 11], pendingSinceMs: HOUR }, 'the sixth is 27 minutes in');
  assert.deepEqual(lifeOf(failures(5, 3 * HOUR)).warnedAtMs, []);
  assert.deepEqual(lifeOf(failures(100, 29 * MINUTE)).warnedAtMs, []);
  assert.deepEqual(lifeOf(failures(11, 3 * HOUR)).warnedAtMs, [1.5 * HOUR]);
  const span = settings.deactivateAfterSeconds.long * SECOND;
  assert.deepEqual(lifeOf(failures(11, span), 'long').warnedAtMs, [span / 2]);
});

test('a success permits another warning; a pause and an internal fault cause none', () => {
  const again = failures(12, 40 * MINUTE).map(({ atMs, outcome }) => ({ atMs: HOUR + atMs, outcome }));
  const { warnedAtMs } = lifeOf([...failures(12, 40 * MINUTE), { atMs: 50 * MINUTE, outcome: delivered }, ...again]);
  assert.deepEqual(
    warnedAtMs,
    [0, HOUR].map((fromMs) => fromMs + (9 * 40 * MINUTE) / 11),
  );
  for (const outcome of [busy, internal]) {
    assert.deepEqual(lifeOf([...failures(8, MINUTE), { atMs: HOUR, outcome }]).warnedAtMs, []);
  }
});

test('no warning follows once the webhook is to be disabled', () => {
  const gone: Attempt = { atMs: HOUR / 2, outcome: { kind: 'gone', reply } };
  assert.deepEqual(lifeOf([...failures(10, MINUTE), gone]), { warnedAtMs: [], pendingSinceMs: HOUR / 2 });
  const late = [...failures(5, MINUTE), gone, { atMs: HOUR, outcome: failed }];
  assert.deepEqual(lifeOf(late), { warnedAtMs: [], pendingSinceMs: HOUR / 2 });
});
