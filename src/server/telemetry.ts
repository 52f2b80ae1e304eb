/** Metrics and health of a process. The parts that do the work register what there is to observe. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import { MIGRATIONS } from '#db/migrate.ts';
import type { Sql } from '#db/pool.ts';
import { createDatabaseCheck } from '#db/readiness.ts';
import { createEngineMetrics, type EngineMetrics } from '#delivery/metrics/metrics.ts';
import { createPublishMetrics, type PublishMetrics } from '#events/metrics.ts';
import { createRecoveryMetrics, type RecoveryMetrics } from '#events/replay/metrics.ts';
import { createRequestMetrics, type RequestMetrics } from '#http/metrics.ts';
import type { Clock } from '#core/clock.ts';
import { createHealth, type Check, type Health } from '#core/health.ts';
import type { Running } from '#core/lifecycle.ts';
import { observeDatabase } from '#metrics/database.ts';
import { serveMetrics } from '#metrics/server.ts';
import type { AppDeps } from './app.ts';

export type Observing = Running & {
  registry: Registry;
  health: Health;
  /** Registers a readiness check, evaluated together with the database's. */
  check: (check: Check) => void;
  engine: EngineMetrics;
  publishing: PublishMetrics;
  recoveries: RecoveryMetrics;
  requests: RequestMetrics;
};

const databaseOf = ({ sql, clock }: { sql: Sql; clock: Clock }) =>
  createDatabaseCheck({ sql, clock, migrations: MIGRATIONS });

/** Starts the metrics listener. It starts first and stops last, so that a starting or stopping process can be observed. */
export async function openObserving({
  config,
  sql,
  clock,
  siblings,
}: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'siblings'>): Promise<Observing> {
  const { host, metricsPort: port, database, dataDir } = config;
  const registry = new Registry();
  const checks: Check[] = [await databaseOf({ sql, clock })];
  const health = createHealth(checks);
  observeDatabase(registry, { sql, clock, dataDir: database.url === undefined ? dataDir : undefined });
  const metrics = {
    engine: createEngineMetrics(registry),
    publishing: createPublishMetrics(registry),
    recoveries: createRecoveryMetrics(registry),
    requests: createRequestMetrics(registry),
  };
  // Default metrics observe the event loop and garbage collection for as long as the process lives, so they are collected
  // only if metrics are served.
  if (port !== 0) collectDefaultMetrics({ register: registry });
  // A supervisor serves the metrics of all its processes.
  const server =
    port === 0 || siblings !== undefined ? undefined : await serveMetrics({ registry, health, host, port });
  const stop = async (): Promise<void> => server?.stop();
  return { ...metrics, registry, health, check: (check) => void checks.push(check), stop };
}
