/** Counts requests by route, never by address: addresses contain ids and misplaced secrets. */
import type { FastifyInstance } from 'fastify';
import { Counter, Histogram, type Registry } from 'prom-client';
import { METHODS } from './route.ts';

const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];
const KNOWN_METHODS: ReadonlySet<string> = new Set([...METHODS, 'HEAD', 'OPTIONS']);

export type RequestMetrics = {
  /** `route` is undefined if no route matched. */
  recordResponse: (request: { method: string; route: string | undefined; status: number; seconds: number }) => void;
};

/** Creates the metrics. Routes, methods and statuses are few, so the number of series is bounded. */
export function createRequestMetrics(registry: Registry): RequestMetrics {
  const registers = [registry];
  const recordResponse = new Counter({
    name: 'halcyon_http_requests_total',
    help: 'Requests by method, route and status',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'halcyon_http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its response',
    labelNames: ['method', 'route'],
    buckets: BUCKETS_SECONDS,
    registers,
  });
  return {
    recordResponse: (request) => {
      const method = KNOWN_METHODS.has(request.method) ? request.method : 'other';
      const route = request.route ?? 'none';
      recordResponse.inc({ method, route, status: request.status });
      seconds.observe({ method, route }, request.seconds);
    },
  };
}

export function watchRequests(app: FastifyInstance, metrics: RequestMetrics): void {
  app.addHook('onResponse', async (request, reply) => {
    metrics.recordResponse({
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1_000,
    });
  });
}
