/**
 * `/metrics` in Prometheus' text format, and health checks, on a separate port for the operator's network. The metrics of several processes
 * are combined as those of one.
 */
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import {
  AggregatorRegistry,
  type MetricType,
  type Registry,
  Counter,
  Gauge,
  type Aggregator,
} from '@prometheus-io/client';
import type { Health, Running } from '#core/lifecycle.ts';
import type { Clock } from '#core/clock.ts';

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
  const server = createServer((request, response) => {
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
