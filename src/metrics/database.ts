/** Metrics of the database connections of a process, and of open transactions. */
import type { Registry } from '@prometheus-io/client';
import { readTransactionAges } from '#db/activity.ts';
import { readFreeSpace } from '#db/data-folder.ts';
import { readUsedNumbers } from '#db/numbers.ts';
import { useOf, type Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf } from '#core/ids.ts';
import { createCachedRead, scrapeCounter, scrapeGauge } from './metrics-server.ts';

/** Registers the metrics. `dataDir` is the folder of the embedded database; undefined for an external one. */
export function observeDatabase(
  registry: Registry,
  { sql, clock, dataDir }: { sql: Sql; clock: Clock; dataDir: string | undefined },
): void {
  scrapeGauge(
    registry,
    { name: 'halcyon_database_connections_limit', help: 'Maximum connections of the pool' },
    () => useOf(sql).connections,
  );
  scrapeGauge(
    registry,
    {
      name: 'halcyon_database_connections_busy',
      help: 'Connections that run a statement or belong to a transaction',
    },
    () => useOf(sql).busy,
  );
  scrapeGauge(
    registry,
    {
      name: 'halcyon_database_statements_waiting',
      help: 'Statements and transactions that wait for a connection or behind another statement',
      // Each process has a pool of its own.
      aggregator: 'max',
    },
    () => useOf(sql).waiting,
  );
  scrapeCounter(
    registry,
    {
      name: 'halcyon_database_disk_full_total',
      help: 'Statements that PostgreSQL rejected because its disk is full',
    },
    () => useOf(sql).refusedForSpace,
  );
  scrapeGauge(
    registry,
    {
      name: 'halcyon_disk_free_bytes',
      help: 'Free bytes on the fullest disk of the embedded database',
      aggregator: 'min',
    },
    async () => (dataDir === undefined ? undefined : (await readFreeSpace(dataDir).catch(() => undefined))?.freeBytes),
  );
  const ages = createCachedRead(() => readTransactionAges(sql), clock);
  scrapeGauge(
    registry,
    {
      name: 'halcyon_database_oldest_transaction_seconds',
      help: 'Age of the oldest open transaction in the database: of any client, and of any process of Halcyon',
      label: 'of',
      // Every process reads the same value.
      aggregator: 'max',
    },
    async () => {
      const cached = await ages();
      return cached && Object.entries({ anybody: cached.oldestSeconds, halcyon: cached.halcyonSeconds });
    },
  );
  scrapeGauge(
    registry,
    {
      name: 'halcyon_numbers_used_ratio',
      help: "Share of the day's numbers for ids of events or deliveries that is used; at 1 publishing is rejected until midnight UTC",
      label: 'of',
      aggregator: 'max',
    },
    createCachedRead(() => readUsedNumbers(sql, dayOf(clock.now())), clock),
  );
}
