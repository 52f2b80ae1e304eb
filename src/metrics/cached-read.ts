/** Reads for a scrape of the metrics, which must not wait for an unavailable database. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';

/** Scrapes within this time use the cached value. */
const CACHE_MS = 5_000;
/** A scrape must not wait for an unavailable database. */
const TIMEOUT_MS = 1_000;

/**
 * Returns a cached read: at most one statement at a time, and one every 5 s. The result is undefined if there is no
 * response in time.
 */
export function createCachedRead<T>(read: () => Promise<T>, clock: Clock): () => Promise<T | undefined> {
  let cached: { value: T | undefined; untilMs: number } | undefined;
  let running: Promise<T | undefined> | undefined;
  const refresh = async (): Promise<T | undefined> => {
    const value = await read().catch(() => undefined);
    cached = { value, untilMs: clock.monotonicMs() + CACHE_MS };
    running = undefined;
    return value;
  };
  return async () => {
    if (cached !== undefined && clock.monotonicMs() < cached.untilMs) return cached.value;
    const timeout = new AbortController();
    const timedOut = delay(TIMEOUT_MS, undefined, { signal: timeout.signal }).catch(() => undefined);
    const value = await Promise.race([(running ??= refresh()), timedOut]);
    timeout.abort();
    return value;
  };
}
