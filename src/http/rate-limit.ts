/**
 * Rate limit of a grant: a token bucket per process, in memory. In the database it would cost a write per request; with
 * several processes a grant has as many buckets.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '#core/clock.ts';
import type { Principal } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';

const GRANTS_MAX = 100_000;

export type RateLimitSettings = {
  /** 0: no limit. */
  requestsPerSecond: number;
  burstRequests: number;
};

/**
 * Takes one request from the bucket and returns the response headers; throws a 429 with them if the bucket is empty.
 */
export type RateLimit = (principal: Principal | null) => Readonly<Record<string, string>>;

const NONE = {};

/**
 * Creates the rate limit. The only value of a bucket is the time when it will be full again (generic cell rate
 * algorithm). Headers as in draft-ietf-httpapi-ratelimit-headers: `r` requests remain, the bucket is full in `t`
 * seconds.
 */
export function createRateLimit(
  { requestsPerSecond, burstRequests }: RateLimitSettings,
  clock: Pick<Clock, 'monotonicMs'>,
): RateLimit {
  if (requestsPerSecond === 0) return () => NONE;
  const fullAtMs = new LRUCache<string, number>({ max: GRANTS_MAX });
  const costMs = 1_000 / requestsPerSecond;
  const policy = `"default";q=${burstRequests};w=${Math.ceil(burstRequests / requestsPerSecond)}`;
  return (principal) => {
    if (principal === null || principal.scope === 'platform') return NONE;
    const key = principal.grantId === null ? `user ${principal.userId}` : `grant ${principal.grantId}`;
    const nowMs = clock.monotonicMs();
    const before = Math.max(fullAtMs.get(key) ?? nowMs, nowMs);
    const after = before + costMs;
    const remaining = Math.floor(burstRequests - (after - nowMs) / costMs + 1e-6);
    const headers = (r: number, fullMs: number) => ({
      'RateLimit-Policy': policy,
      RateLimit: `"default";r=${r};t=${Math.ceil((fullMs - nowMs) / 1_000)}`,
    });
    if (remaining >= 0) {
      fullAtMs.set(key, after);
      return headers(remaining, after);
    }
    const waitSeconds = Math.ceil((after - nowMs - burstRequests * costMs) / 1_000);
    throw new Problem(
      429,
      { code: 'too_many_requests', message: `More than ${requestsPerSecond} requests a second; wait ${waitSeconds} s` },
      { headers: { ...headers(0, before), 'Retry-After': String(waitSeconds) } },
    );
  };
}
