/** Metrics of the database connections of a process, and of open transactions. */
import { Counter, Gauge, type Aggregator, type Registry } from 'prom-client';
import { readTransactionAges } from '#db/activity.ts';
import { readFreeSpace } from '#db/data-folder.ts';
import { readUsedNumbers } from '#db/numbers.ts';
import { useOf, type Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf } from '#core/ids.ts';
import { setTimeout as delay } from 'node:timers/promises';

function observeDisk(registry: Registry, { sql, dataDir }: { sql: Sql; dataDir: string | undefined }): void {
  const registers = [registry];
  registry.registerMetric(
    new Counter({
      name: 'halcyon_database_disk_full_total',
      help: 'Statements that PostgreSQL rejected because its disk is full',
      registers,
      collect() {
        this.reset();
        this.inc(useOf(sql).refusedForSpace);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_disk_free_bytes',
      help: 'Free bytes on the fullest disk of the embedded database',
      registers,
      aggregator: 'min',
      async collect() {
        this.reset();
        const space = dataDir === undefined ? undefined : await readFreeSpace(dataDir).catch(() => undefined);
        if (space === undefined) this.remove();
        else this.set(space.freeBytes);
      },
    }),
  );
}

/** Registers the metrics. `dataDir` is the folder of the embedded database; undefined for an external one. */
export function observeDatabase(
  registry: Registry,
  { sql, clock, dataDir }: { sql: Sql; clock: Clock; dataDir: string | undefined },
): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number, aggregator: Aggregator = 'sum') =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers,
        aggregator,
        collect() {
          this.set(read());
        },
      }),
    );
  gauge('halcyon_database_connections_limit', 'Maximum connections of the pool', () => useOf(sql).connections);
  gauge(
    'halcyon_database_connections_busy',
    'Connections that run a statement or belong to a transaction',
    () => useOf(sql).busy,
  );
  gauge(
    'halcyon_database_statements_waiting',
    'Statements and transactions that wait for a connection or behind another statement',
    () => useOf(sql).waiting,
    // Each process has a pool of its own.
    'max',
  );
  const ages = createCachedRead(() => readTransactionAges(sql), clock);
  const usedNumbers = createCachedRead(() => readUsedNumbers(sql, dayOf(clock.now())), clock);
  observeDisk(registry, { sql, dataDir });
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_database_oldest_transaction_seconds',
      help: 'Age of the oldest open transaction in the database: of any client, and of any process of Halcyon',
      labelNames: ['of'],
      registers,
      // Every process reads the same value.
      aggregator: 'max',
      async collect() {
        const cached = await ages();
        // No value is better than an old one, which would look as if the database were available.
        this.reset();
        if (cached === undefined) return;
        this.set({ of: 'anybody' }, cached.oldestSeconds);
        this.set({ of: 'halcyon' }, cached.halcyonSeconds);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_numbers_used_ratio',
      help: "Share of the day's numbers for ids of events or deliveries that is used; at 1 publishing is rejected until midnight UTC",
      labelNames: ['of'],
      registers,
      aggregator: 'max',
      async collect() {
        this.reset();
        for (const [of, used] of (await usedNumbers()) ?? []) this.set({ of }, used);
      },
    }),
  );
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
