/**
 * `/metrics` in Prometheus' text format, and health checks, on a separate port for the operator's network. The metrics of several processes
 * are combined as those of one.
 */
import { createServer, type ServerResponse } from 'node:http';
import { AggregatorRegistry, type MetricType, type Registry } from '@prometheus-io/client';
import type { Health } from '#core/health.ts';
import type { Running } from '#core/lifecycle.ts';

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
