/** What is seen of a process from outside: its metrics and its health. Whoever does the work says what there is to see. */
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
  /** Asked with the database whether the process is ready. */
  check: (check: Check) => void;
  engine: EngineMetrics;
  publishing: PublishMetrics;
  recoveries: RecoveryMetrics;
  requests: RequestMetrics;
};

const databaseOf = ({ sql, clock }: { sql: Sql; clock: Clock }) =>
  createDatabaseCheck({ sql, clock, migrations: MIGRATIONS });

/** Started first and stopped last: a process that is starting or stopping can be seen to do so. */
export const openObserving = async ({
  config,
  sql,
  clock,
}: Pick<AppDeps, 'config' | 'sql' | 'clock'>): Promise<Observing> => {
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
  // They watch the loop and the collections of garbage for as long as the process lives: for nobody, where nobody asks.
  if (port !== 0) collectDefaultMetrics({ register: registry });
  const server = port === 0 ? undefined : await serveMetrics({ registry, health, host, port });
  const stop = async (): Promise<void> => server?.stop();
  return { ...metrics, registry, health, check: (check) => void checks.push(check), stop };
};
