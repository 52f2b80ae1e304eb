import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import {
  HEALTHY,
  NO_BACKOFF,
  backoffAfter,
  effectOf,
  healthAfter,
  nextStepAfter,
  pauseMsOf,
  requiresDisable,
  type Backoff,
  type Health,
} from './policy.ts';
import type { RetryProfile } from '../attempt/delivery-target.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const START = Date.UTC(2026, 10, 21);
const settings = { deactivateAfterFailures: 12, deactivateAfterSeconds: { hour: 3_600, long: 272_105 } };
const reply = { code: 500, headers: '', body: '' };
const refused: Outcome = { kind: 'refused', reply, retryAfterMs: 0 };
const delivered: Outcome = { kind: 'delivered', reply: { ...reply, code: 204 } };

type Waiting = { dueAtMs: number; attempts: number };
type Outage = {
  /** When deliveries arrive. */
  arrivals: readonly number[];
  profile?: RetryProfile;
  random?: number;
  untilMs: number;
  /** What the endpoint answers; every answer takes a tenth of a second, one at a time. */
  outcomeAt?: (ms: number) => Outcome;
};

/** One lane, its endpoint and the policy: what is sent when, the outcomes, and when the webhook is disabled. */
function simulate({ arrivals, profile = 'hour', random = 0, untilMs, outcomeAt = () => refused }: Outage) {
  const waiting: Waiting[] = arrivals.map((dueAtMs) => ({ dueAtMs, attempts: 0 }));
  const requests: number[] = [];
  let ended = 0;
  let health: Health = HEALTHY;
  let backoff: Backoff = NO_BACKOFF;
  let nowMs = 0;
  while (waiting.length > 0) {
    waiting.sort((a, b) => a.dueAtMs - b.dueAtMs);
    const [next] = waiting;
    if (next === undefined) break;
    nowMs = Math.max(nowMs, next.dueAtMs, backoff.pausedUntilMs, backoff.breaker?.probeAtMs ?? 0);
    if (nowMs >= untilMs) break;
    requests.push(nowMs);
    const outcome = outcomeAt(nowMs);
    nowMs += 100;
    const now = new Date(START + nowMs);
    next.attempts += 1;
    const nextStep = nextStepAfter(outcome, { attempt: next.attempts, faults: 0, profile, random });
    if (nextStep.kind === 'retry') next.dueAtMs = nowMs + nextStep.afterMs;
    else ended += waiting.splice(0, 1).length;
    health = healthAfter(health, outcome, now);
    const isProbe = backoff.breaker !== null;
    const [effect, pauseMs] = [effectOf(outcome), pauseMsOf(outcome)];
    backoff = backoffAfter(backoff, { effect, pauseMs, failures: health.consecutiveFailures, isProbe, nowMs, random });
    if (requiresDisable(health, outcome, now, profile, settings)) return { requests, ended, deactivatedAtMs: nowMs };
  }
  return { requests, ended, deactivatedAtMs: null };
}

const FOR_EVER_MS = 100 * 24 * HOUR;
const inFirst = (requests: readonly number[], ms: number): number => requests.filter((atMs) => atMs < ms).length;
const atOnce = (count: number): number[] => Array.from({ length: count }, () => 0);
const every = (ms: number, count: number): number[] => Array.from({ length: count }, (_, index) => index * ms);

test('a single delivery makes its 12 attempts, unaffected by the breaker, and the last one disables the webhook', () => {
  const { requests, ended, deactivatedAtMs } = simulate({ arrivals: atOnce(1), untilMs: FOR_EVER_MS });
  const minutes = requests.map((atMs) => Math.floor(atMs / MINUTE));
  assert.deepEqual(minutes, [0, 1, 2, 4, 7, 11, 16, 22, 29, 37, 47, 60]);
  assert.equal(ended, 1);
  assert.equal(Math.floor((deactivatedAtMs ?? 0) / MINUTE), 60);
});

// The description of a dead endpoint in docs/delivery-states.md.
const crowds: readonly [string, readonly number[], { first: number; all: number; afterMinutes: number }][] = [
  ['1,000 deliveries at once', atOnce(1_000), { first: 20, all: 21, afterMinutes: 60 }],
  ['a delivery a second', every(SECOND, 7_200), { first: 20, all: 21, afterMinutes: 60 }],
  ['a delivery a minute', every(MINUTE, 120), { first: 20, all: 21, afterMinutes: 62 }],
  ['a delivery every ten minutes', every(10 * MINUTE, 12), { first: 18, all: 19, afterMinutes: 60 }],
];
for (const [name, arrivals, expected] of crowds) {
  test(`a dead endpoint with ${name} gets few requests, few charged attempts, and is disabled in time`, () => {
    const { requests, ended, deactivatedAtMs } = simulate({ arrivals, untilMs: FOR_EVER_MS });
    const afterMinutes = Math.floor((deactivatedAtMs ?? 0) / MINUTE);
    assert.deepEqual({ first: inFirst(requests, HOUR), all: requests.length, afterMinutes }, expected);
    assert.equal(ended, 0, 'no delivery has used up its attempts');
  });
}

test('random intervals mean fewer requests, and not much later', () => {
  const { requests, deactivatedAtMs } = simulate({ arrivals: atOnce(1_000), random: 0.999, untilMs: FOR_EVER_MS });
  assert.equal(inFirst(requests, HOUR), 18);
  assert.ok(deactivatedAtMs !== null && deactivatedAtMs < 66 * MINUTE);
});

test('on the profile long a dead endpoint is probed for three days', () => {
  const { requests, deactivatedAtMs } = simulate({ arrivals: atOnce(1_000), profile: 'long', untilMs: FOR_EVER_MS });
  assert.deepEqual([inFirst(requests, HOUR), inFirst(requests, 24 * HOUR)], [20, 296]);
  assert.equal(Math.floor((deactivatedAtMs ?? 0) / HOUR), 75);
});

test('on the profile long a single delivery has too few attempts to disable the webhook', () => {
  const { ended, deactivatedAtMs } = simulate({ arrivals: atOnce(1), profile: 'long', untilMs: FOR_EVER_MS });
  assert.deepEqual({ ended, deactivatedAtMs }, { ended: 1, deactivatedAtMs: null });
});

test('an endpoint that recovers gets everything, from the first successful probe on', () => {
  const outcomeAt = (ms: number) => (ms < 50 * MINUTE ? refused : delivered);
  const { requests, ended, deactivatedAtMs } = simulate({ arrivals: atOnce(1_000), outcomeAt, untilMs: FOR_EVER_MS });
  const first = requests.find((atMs) => atMs >= 50 * MINUTE) ?? Infinity;
  assert.ok(first <= 55 * MINUTE, 'no later than the longest gap');
  // The backlog and the charged deliveries, all in sequence.
  assert.equal(requests.filter((atMs) => atMs >= first && atMs < first + 101 * SECOND).length, 1_000);
  assert.deepEqual({ ended, deactivatedAtMs }, { ended: 1_000, deactivatedAtMs: null });
});

test('one success in twenty keeps a webhook enabled and its deliveries moving', () => {
  let n = 0;
  const outcomeAt = () => ((n += 1) % 20 === 0 ? delivered : refused);
  const { ended, deactivatedAtMs } = simulate({ arrivals: every(MINUTE, 300), outcomeAt, untilMs: 24 * HOUR });
  assert.equal(deactivatedAtMs, null);
  assert.ok(ended > 20);
});
