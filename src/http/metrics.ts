/** Requests by the route that answered them: never by an address, which has ids and misplaced secrets in it. */
import type { FastifyInstance } from 'fastify';
import { Counter, Histogram, type Registry } from 'prom-client';
import { METHODS } from './route.ts';

const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];
const KNOWN_METHODS: ReadonlySet<string> = new Set([...METHODS, 'HEAD', 'OPTIONS']);

export type RequestMetrics = {
  /** `route` is undefined where no route was found. */
  answered: (request: { method: string; route: string | undefined; status: number; seconds: number }) => void;
};

/** Routes, methods and statuses are few, so what is counted is bounded whatever is asked. */
export const createRequestMetrics = (registry: Registry): RequestMetrics => {
  const registers = [registry];
  const answered = new Counter({
    name: 'halcyon_http_requests_total',
    help: 'Requests that were answered',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'halcyon_http_request_duration_seconds',
    help: 'From the arrival of a request to the end of its answer',
    labelNames: ['method', 'route'],
    buckets: BUCKETS_SECONDS,
    registers,
  });
  return {
    answered: (request) => {
      const method = KNOWN_METHODS.has(request.method) ? request.method : 'other';
      const route = request.route ?? 'none';
      answered.inc({ method, route, status: request.status });
      seconds.observe({ method, route }, request.seconds);
    },
  };
};

export const watchRequests = (app: FastifyInstance, metrics: RequestMetrics): void => {
  app.addHook('onResponse', async (request, reply) => {
    metrics.answered({
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1_000,
    });
  });
};
