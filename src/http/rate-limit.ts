/**
 * Rate limit of a grant: a token bucket in memory. In the database it would cost a write per request. The processes of a
 * supervisor share what they take every 25 ms; a grant has a bucket on each machine.
 */
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
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

/** Requests by grant. */
export type Taken = ReadonlyMap<string, number>;
/** Sends what this process took to the other processes of its supervisor, and receives what they took. */
export type TakenChannel = { send: (taken: Taken) => void; receive: (handler: (taken: Taken) => void) => void };

const SHARE_EVERY_MS = 25;

/** Returns a function that counts a request of a grant, and sends the counts of an interval together. */
function createSharing(send: TakenChannel['send']): (key: string) => void {
  let taken = new Map<string, number>();
  const flush = () => {
    const counted = taken;
    taken = new Map();
    send(counted);
  };
  return (key) => {
    if (taken.size === 0) setTimeout(flush, SHARE_EVERY_MS).unref();
    taken.set(key, (taken.get(key) ?? 0) + 1);
  };
}

/**
 * Creates the rate limit. The only value of a bucket is the time when it will be full again (generic cell rate
 * algorithm). Headers as in draft-ietf-httpapi-ratelimit-headers: `r` requests remain, the bucket is full in `t`
 * seconds. With a channel, requests that other processes allow within one interval may exceed the limit.
 */
export function createRateLimit(
  { requestsPerSecond, burstRequests }: RateLimitSettings,
  clock: Pick<Clock, 'monotonicMs'>,
  channel?: TakenChannel,
): RateLimit {
  if (requestsPerSecond === 0) return () => NONE;
  const fullAtMs = new LRUCache<string, number>(entriesUpTo(GRANTS_MAX));
  const costMs = 1_000 / requestsPerSecond;
  const share = channel === undefined ? undefined : createSharing(channel.send);
  channel?.receive((taken) => {
    const nowMs = clock.monotonicMs();
    for (const [key, requests] of taken)
      fullAtMs.set(key, Math.max(fullAtMs.get(key) ?? nowMs, nowMs) + requests * costMs);
  });
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
      share?.(key);
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
