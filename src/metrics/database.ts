/** What a process knows of its database: its connections, and the transactions that are open. */
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import { readTransactionAges } from '#db/activity.ts';
import { readFreeSpace } from '#db/free-space.ts';
import { readUsedNumbers } from '#db/numbers.ts';
import type { Sql } from '#db/pool.ts';
import { useOf } from '#db/use.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf } from '#core/ids.ts';

/** Scrapes that come sooner are answered from memory. */
const KEPT_MS = 5_000;
/** A database that is away must not keep the rest from being seen. */
const ANSWER_MS = 1_000;

/** Reads at most every five seconds and by one statement at a time; undefined where there is no answer in time. */
const createKept = <T>(read: () => Promise<T>, clock: Clock): (() => Promise<T | undefined>) => {
  let known: { value: T | undefined; untilMs: number } | undefined;
  let asked: Promise<T | undefined> | undefined;
  const ask = async (): Promise<T | undefined> => {
    const value = await read().catch(() => undefined);
    known = { value, untilMs: clock.monotonicMs() + KEPT_MS };
    asked = undefined;
    return value;
  };
  return async () => {
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.value;
    const patience = new AbortController();
    const late = delay(ANSWER_MS, undefined, { signal: patience.signal }).catch(() => undefined);
    const ages = await Promise.race([(asked ??= ask()), late]);
    patience.abort();
    return ages;
  };
};

const observeDisk = (registry: Registry, { sql, dataDir }: { sql: Sql; dataDir: string | undefined }): void => {
  const registers = [registry];
  registry.registerMetric(
    new Counter({
      name: 'halcyon_database_disk_full_total',
      help: 'Statements that PostgreSQL refused because its disk is full',
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
      async collect() {
        this.reset();
        const space = dataDir === undefined ? undefined : await readFreeSpace(dataDir).catch(() => undefined);
        if (space === undefined) this.remove();
        else this.set(space.freeBytes);
      },
    }),
  );
};

/** `dataDir`: the folder of the embedded database; undefined where there is none. */
export const observeDatabase = (
  registry: Registry,
  { sql, clock, dataDir }: { sql: Sql; clock: Clock; dataDir: string | undefined },
): void => {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number) =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      }),
    );
  gauge('halcyon_database_connections_limit', 'Connections that the pool may have', () => useOf(sql).connections);
  gauge(
    'halcyon_database_connections_busy',
    'Connections that run a statement or belong to a transaction',
    () => useOf(sql).busy,
  );
  gauge(
    'halcyon_database_statements_waiting',
    'Statements and transactions that wait for a connection or behind another statement',
    () => useOf(sql).waiting,
  );
  const ages = createKept(() => readTransactionAges(sql), clock);
  const usedNumbers = createKept(() => readUsedNumbers(sql, dayOf(clock.now())), clock);
  observeDisk(registry, { sql, dataDir });
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_database_oldest_transaction_seconds',
      help: 'Age of the oldest open transaction in the database: of anybody, and of any process of Halcyon',
      labelNames: ['of'],
      registers,
      async collect() {
        const known = await ages();
        // Nothing is better than an old value: it would look as if the database were there.
        this.reset();
        if (known === undefined) return;
        this.set({ of: 'anybody' }, known.oldestSeconds);
        this.set({ of: 'halcyon' }, known.oursSeconds);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_numbers_used_ratio',
      help: "Share of the day's numbers for ids of events or deliveries that is used; at 1 publishing is refused until midnight UTC",
      labelNames: ['of'],
      registers,
      async collect() {
        this.reset();
        for (const [of, used] of (await usedNumbers()) ?? []) this.set({ of }, used);
      },
    }),
  );
};
