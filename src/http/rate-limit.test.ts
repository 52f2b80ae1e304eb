import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Principal } from '#core/principal.ts';
import { until } from '../../test/setup/until.ts';
import { createRateLimit, type Taken } from './caller.ts';

const settings = { requestsPerSecond: 10, burstRequests: 20 };
const grant = (grantId: number): Principal => ({
  userId: 1,
  clientId: 2,
  publicClientId: 'app',
  grantId,
  scope: 'store_full_access',
  permissions: null,
  stores: [256],
  suspended: new Map(),
  owned: [],
});

function start() {
  const time = { ms: 1_000 };
  const limit = createRateLimit(settings, { monotonicMs: () => time.ms });
  const allowed = (tries: number, principal = grant(1)): number => {
    let through = 0;
    for (let i = 0; i < tries; i += 1) {
      try {
        limit(principal);
        through += 1;
      } catch {
        // The bucket is empty.
      }
    }
    return through;
  };
  return { time, limit, allowed };
}

test('a full bucket lets the burst through, then requests at its refill rate', () => {
  const { time, allowed } = start();
  assert.equal(allowed(50), 20);
  time.ms += 500;
  assert.equal(allowed(50), 5);
  time.ms += 60_000;
  assert.equal(allowed(50), 20);
});

test('the headers state the remaining requests and when the bucket is full', () => {
  const { limit } = start();
  assert.deepEqual(limit(grant(1)), { 'RateLimit-Policy': '"default";q=20;w=2', RateLimit: '"default";r=19;t=1' });
});

test('an empty bucket is a 429 with the time to retry', () => {
  const { limit, allowed, time } = start();
  allowed(20);
  assert.throws(
    () => limit(grant(1)),
    (error: { status: number; headers: Record<string, string> }) => {
      assert.equal(error.status, 429);
      assert.equal(error.headers['Retry-After'], '1');
      assert.equal(error.headers['RateLimit'], '"default";r=0;t=2');
      return true;
    },
  );
  time.ms += 1_000;
  assert.equal(allowed(1), 1);
});

test('grants are limited independently, and a user is separate from a grant', () => {
  const { allowed } = start();
  allowed(30);
  assert.equal(allowed(30, grant(2)), 20);
  assert.equal(allowed(30, { ...grant(1), grantId: null, clientId: null }), 20);
});

test('the platform without a token is not counted, and no client is where the limit is off', () => {
  const { limit } = start();
  const platform: Principal = { ...grant(1), userId: null, scope: 'platform', stores: 'all' };
  const off = createRateLimit({ ...settings, requestsPerSecond: 0 }, { monotonicMs: () => 0 });
  for (let i = 0; i < 50; i += 1) {
    assert.deepEqual(limit(platform), {});
    assert.deepEqual(limit(null), {});
    assert.deepEqual(off(grant(1)), {});
  }
});

test('processes that share what they take have one bucket together', async () => {
  const handlers: ((taken: Taken) => void)[] = [];
  const sent: Taken[] = [];
  const [first, second] = [0, 1].map((index) =>
    createRateLimit(
      settings,
      { monotonicMs: () => 1_000 },
      { send: (taken) => void sent.push(taken), receive: (handler) => (handlers[index] = handler) },
    ),
  );
  for (let request = 0; request < 15; request += 1) first?.(grant(1));
  await until(
    async () => sent.length,
    (messages) => messages === 1,
  );
  assert.deepEqual(sent, [new Map([['grant 1', 15]])]);
  handlers[1]?.(sent[0] ?? new Map());
  for (let request = 0; request < 5; request += 1) second?.(grant(1));
  assert.throws(() => second?.(grant(1)), { status: 429 });
});
