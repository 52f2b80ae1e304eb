/**
 * `/metrics` in Prometheus' text format, and health checks, on a separate port for the operator's network. The metrics of several processes
 * are combined as those of one. Metrics whose values are read when they are scraped, among them those of the database connections of a process
 * and of open transactions.
 */
import type { ServerResponse } from 'node:http';
import {
  AggregatorRegistry,
  type MetricType,
  type Registry,
  Counter,
  Gauge,
  type Aggregator,
} from '@prometheus-io/client';
import { nodeHttp } from '#core/node-http.ts';
import { inTime, type Health, type Running } from '#core/lifecycle.ts';
import type { Clock } from '#core/clock.ts';
import { readTransactionAges } from '#db/activity.ts';
import { readFreeSpace } from '#db/data-folder.ts';
import { readUsedNumbers } from '#db/partitions.ts';
import { useOf, type Sql } from '#db/pool.ts';
import { dayOf } from '#core/ids.ts';

type MetricsResponse = { status: number; type: string; body: string };

const json = (status: number, value: object): MetricsResponse => ({
  status,
  type: 'application/json',
  body: JSON.stringify(value),
});

function send(response: ServerResponse, { status, type, body }: MetricsResponse): void {
  const headers = { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body), 'Cache-Control': 'no-store' };
  // Node omits the body of a HEAD response.
  response.writeHead(status, headers).end(body);
}

/** Starts the listener. Rejects if the port is not available. */
export async function serveMetrics(deps: {
  registry: Pick<Registry, 'contentType' | 'metrics'>;
  health: Pick<Health, 'readiness'>;
  host: string;
  port: number;
}): Promise<Running> {
  const { registry, health, host, port } = deps;
  const handlers: Readonly<Record<string, () => Promise<MetricsResponse>>> = {
    '/metrics': async () => ({ status: 200, type: registry.contentType, body: await registry.metrics() }),
    '/health/live': async () => json(200, { status: 'live' }),
    '/health/ready': async () => {
      const readiness = await health.readiness();
      return json(readiness.status === 'ready' ? 200 : 503, readiness);
    },
  };
  const server = nodeHttp.createServer((request, response) => {
    // Scrapers may add a query, to bypass a cache.
    const [path = ''] = (request.url ?? '').split('?', 1);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const handler = isRead && Object.hasOwn(handlers, path) ? handlers[path] : undefined;
    if (handler === undefined) return void response.writeHead(404).end();
    handler().then(
      (result) => send(response, result),
      () => response.writeHead(500).end(),
    );
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(port, host, resolve);
  await promise;
  return {
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

/** The metrics of a process, as `getMetricsAsJSON` of its registry returns them. */
export type ProcessMetrics = readonly { readonly name: string; readonly type: MetricType }[];

/** Returns one registry with the metrics of all processes, each combined as its `aggregator` says. */
export function aggregate(metrics: readonly ProcessMetrics[]): Registry {
  return AggregatorRegistry.aggregate([...metrics]);
}

const COUNTING: ReadonlySet<MetricType> = new Set(['counter', 'histogram']);

/** Returns the sums of the counters and histograms, which must not fall when a process ends. */
export function countersOf(metrics: readonly ProcessMetrics[]): ProcessMetrics {
  return aggregate(metrics.map((one) => one.filter(({ type }) => COUNTING.has(type)))).getMetricsAsArray();
}

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

/** Registers a counter of what is counted elsewhere. `label`: the name of its label. */
export function scrapeCounter(
  registry: Registry,
  { label, ...described }: Described & { label?: string },
  read: () => number | Iterable<readonly [labelled: string, value: number]>,
): void {
  const counter: Counter<string> = new Counter({
    ...described,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect: () => {
      counter.reset();
      const values = read();
      for (const [labelled, value] of typeof values === 'number' ? [['', values] as const] : values)
        counter.inc(label === undefined ? {} : { [label]: labelled }, value);
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
    return inTime(TIMEOUT_MS, (running ??= refresh()), undefined);
  };
}

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
