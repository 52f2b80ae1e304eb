/** Metrics and health of a process. The parts that do the work register what there is to observe. */
import type { Runtime } from '#runtime/runtime.ts';
import { collectDefaultMetrics, Registry } from '@prometheus-io/client';
import { DatabaseClock } from '#db/database-clock.ts';
import { MIGRATIONS } from '#db/migrate.ts';
import { createDatabaseCheck } from '#db/activity.ts';
import { createEngineMetrics } from '#delivery/delivery-metrics.ts';
import { createRecoveryMetrics } from '#events/replay/recoveries.ts';
import { createRequestMetrics } from '#http/requests.ts';
import { createHealth, type Check } from '#core/lifecycle.ts';
import { observeDatabase, aggregate, serveMetrics, type ProcessMetrics } from '#metrics/metrics-server.ts';
import { HOME } from '#shards/map.ts';
import type { AppDeps } from './app.ts';
import { createPublishMetrics } from '#events/publish/publish.ts';

/** Returns the data folder if the database with this id is the embedded one, whose disk can be read. */
export function embeddedFolder({ database, dataDir }: Runtime['config'], id: number): string | undefined {
  return id === HOME && database.url === undefined ? dataDir : undefined;
}

/** Registers the metrics of a database and of what a process does in it. */
export function observeStores(
  registry: Registry,
  { config, sql, clock }: Pick<Runtime, 'config' | 'sql' | 'clock'>,
  id: number,
) {
  observeDatabase(registry, { sql, clock, dataDir: embeddedFolder(config, id) });
  return {
    engine: createEngineMetrics(registry),
    publishing: createPublishMetrics(registry),
    recoveries: createRecoveryMetrics(registry),
  };
}

/** Starts the metrics listener. It starts first and stops last, so that a starting or stopping process can be observed. */
export async function openObserving({
  config,
  sql,
  clock,
  siblings,
}: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'siblings'>) {
  const { host, metricsPort: port } = config;
  const registry = new Registry();
  const ofDatabases = new Map<string, Registry>();
  const registries = (): Registry[] => [registry, ...ofDatabases.values()];
  const metrics = async (): Promise<ProcessMetrics> =>
    (await Promise.all(registries().map((one) => one.getMetricsAsJSON()))).flat();
  const combined = {
    contentType: registry.contentType,
    metrics: async () => (ofDatabases.size === 0 ? registry : aggregate([await metrics()])).metrics(),
  };
  const checks: Check[] = [await createDatabaseCheck({ sql, clock, migrations: MIGRATIONS })];
  if (clock instanceof DatabaseClock) {
    clock.observe(registry);
    checks.push(clock.check);
  }
  const health = createHealth(checks);
  const watchRequests = createRequestMetrics(registry);
  // Default metrics observe the event loop and garbage collection for as long as the process lives, so they are collected
  // only if metrics are served.
  if (port !== 0) collectDefaultMetrics({ register: registry });
  // A supervisor serves the metrics of all its processes.
  const server =
    port === 0 || siblings !== undefined ? undefined : await serveMetrics({ registry: combined, health, host, port });
  return {
    health,
    /** Registers a readiness check, evaluated together with the database's. */
    check: (check: Check) => void checks.push(check),
    watchRequests,
    /** Returns a new registry of a database. With a name its metrics get the label `database`; it replaces one with the same name. */
    registryOf: (name: string | undefined): Registry => {
      if (name === undefined) return registry;
      const ofDatabase = new Registry();
      ofDatabase.setDefaultLabels({ database: name });
      ofDatabases.set(name, ofDatabase);
      return ofDatabase;
    },
    /** Removes the registry of a database. */
    forget: (name: string) => void ofDatabases.delete(name),
    /** Returns the metrics of the process and of its databases. */
    metrics,
    stop: async () => server?.stop(),
  };
}
export type Observing = Awaited<ReturnType<typeof openObserving>>;
