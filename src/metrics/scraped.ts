/** Metrics whose values are read when they are scraped. */
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Gauge, type Aggregator, type Registry } from '@prometheus-io/client';
import type { Clock } from '#core/clock.ts';

type Described = { name: string; help: string };
/** One value, or one for each value of the label. Without a value is better than with an old one, which would look right. */
type Values = number | undefined | Iterable<readonly [labelled: string, value: number]>;

/** Registers a gauge. `label`: the name of its label. */
export function scrapeGauge(
  registry: Registry,
  { label, ...described }: Described & { label?: string; aggregator?: Aggregator },
  read: () => Values | Promise<Values>,
): void {
  const gauge: Gauge<string> = new Gauge({
    ...described,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect: async () => {
      const values = await read();
      if (typeof values === 'number') return gauge.set(values);
      if (label === undefined) return gauge.remove();
      gauge.reset();
      for (const [labelled, value] of values ?? []) gauge.set({ [label]: labelled }, value);
      return undefined;
    },
  });
}

/** Registers a counter of what is counted elsewhere. */
export function scrapeCounter(registry: Registry, described: Described, read: () => number): void {
  const counter: Counter = new Counter({
    ...described,
    registers: [registry],
    collect: () => {
      counter.reset();
      counter.inc(read());
    },
  });
}

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
