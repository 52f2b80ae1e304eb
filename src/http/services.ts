/** Dependencies of src/http, provided by server/compose.ts, and functions of a request. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { Problem } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import type { Pages, RateLimit } from './caller.ts';
import { newLogref, toProblem } from './errors.ts';
import type { createIdempotency } from './idempotency.ts';
import { METHODS, type Params } from './route.ts';
import { Counter, Histogram, type Registry } from 'prom-client';

export type ErrorHandler = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => void;

export type HttpSettings = {
  bodyLimitBytes: number;
  headersLimitBytes: number;
  requestTimeoutMs: number;
  unsentMs: number;
  unsentBytesMax: number;
  /** Networks of proxies whose `X-Forwarded-For` is trusted; from other peers it is ignored. */
  trustedProxies: readonly string[];
  versionHeader: string;
  /** The origin whose pages may post forms. */
  authOrigin: string;
  /** The API's origin; if its host differs from that of `authOrigin`, it serves no pages. */
  apiOrigin: string;
  /** The path to which error pages link. */
  home: string;
};

export type ShownDocument = { document: Document; naming: Naming; view: View; now: Date };

export type DesignedPage = (shown: ShownDocument) => Promise<string | undefined>;

/**
 * Pages for signed-in people, by the name of the document that each shows in place of its generic page. A page returns undefined if
 * it cannot show the document, or the form of `view` that was rejected.
 */
export type DesignedPages = ReadonlyMap<string, DesignedPage>;

export type Services = {
  settings: HttpSettings;
  naming: Naming;
  clock: Clock;
  log: Log;
  pages: Pages;
  designedPages: DesignedPages;
  rateLimit: RateLimit;
  metrics: RequestMetrics;
  idempotency: ReturnType<typeof createIdempotency>;
  /** Returns the principal of a bearer token; throws a 401 Problem. */
  authenticate: (token: string, now: Date) => Promise<Principal>;
  /** Called before the response to a request that may have changed something. */
  beforeReply: () => Promise<void> | undefined;
  /** Whether the process will soon close its port: each response then ends its connection. */
  isStopping: () => boolean;
  /** Returns why the database is unavailable, if the error says so. */
  whyUnavailable: (error: unknown) => string | undefined;
};

export function rawQueryOf(request: FastifyRequest): string {
  const at = request.url.indexOf('?');
  return at === -1 ? '' : request.url.slice(at + 1);
}

/** Returns the query; repeated parameters stay repeated. */
export function queryOf(request: FastifyRequest): URLSearchParams {
  return new URLSearchParams(rawQueryOf(request));
}

/** Returns how often a header was sent; the name in lower case. `headersDistinct` would cost 2 µs per request instead of 0.2. */
export function timesSent({ rawHeaders }: FastifyRequest['raw'], name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at];
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1;
  }
  return count;
}

/** Returns the headers that were sent once, by lower-case name. */
export function headersOf(request: FastifyRequest): Record<string, string | undefined> {
  const headers: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(request.headers)) if (typeof value === 'string') headers[name] = value;
  return headers;
}

/**
 * Returns the address for the log: the route with its ids. Everything else is omitted, because it may be a misplaced
 * token.
 */
const addressForLog = ({ routeOptions, params }: FastifyRequest): string | undefined =>
  routeOptions.url?.replaceAll(/:(\w+)/g, (parameter, name: string) => {
    const value = (params as Params)[name] ?? '';
    return /^[0-9]{1,16}$/.test(value) ? value : parameter;
  });

/** Converts a thrown value to a Problem and logs it under `logref`: once, where it is handled. */
export function reportProblem(
  services: Services,
  request: FastifyRequest,
  thrown: unknown,
): { problem: Problem; logref: string } {
  const problem = toProblem(thrown, services.whyUnavailable);
  const logref = newLogref();
  const line = {
    logref,
    status: problem.status,
    method: request.method,
    path: addressForLog(request),
    err: problem.cause,
  };
  if (problem.status >= 500) services.log.error(line, problem.message);
  else services.log.debug(line, problem.message);
  return { problem, logref };
}

/** The scheme and host of a request target in absolute form (RFC 9112 §3.2.2). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** Returns the requested path; the root if the target has none, such as `?x` or `#x`. */
export function pathOf({ url }: FastifyRequest): string {
  const path = url.replace(ORIGIN, '').split(/[?#]/, 1)[0] ?? '';
  return path.startsWith('/') ? path : `/${path}`;
}

/** Returns path and query, for a redirect to another host or after signing in. */
export function pathAndQueryOf(request: FastifyRequest): string {
  const query = rawQueryOf(request);
  return query === '' ? pathOf(request) : `${pathOf(request)}?${query}`;
}

/** Returns the public address of the requested path. */
export function addressOf(request: FastifyRequest, { naming }: Services): string {
  return new URL(pathOf(request), naming.baseUrl).href;
}

/** Returns a 405 with the header `Allow` (RFC 9110 §15.5.6). */
export function methodNotAllowed({ method }: FastifyRequest, allow: string): Problem {
  const message = `${method} is not possible here; allowed: ${allow}`;
  return new Problem(405, { code: 'method_not_allowed', message }, { headers: { Allow: allow } });
}

/**
 * Responds with a 405 to every method that the route does not serve; `alsoServed` are served but not listed in `Allow`.
 */
export function refuseOtherMethods(
  app: FastifyInstance,
  route: { path: string; allow: string; alsoServed?: readonly string[]; cors: boolean; errorHandler?: ErrorHandler },
): void {
  const { path, allow, alsoServed = [], cors, errorHandler } = route;
  const served = new Set([...allow.split(', '), ...alsoServed]);
  app.route({
    method: app.supportedMethods.filter((method) => !served.has(method)),
    url: path,
    config: { cors },
    ...(errorHandler && { errorHandler }),
    onRequest: async (request) => {
      throw methodNotAllowed(request, allow);
    },
    handler: async () => undefined,
  });
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether scripts of any origin may read responses of this route. */
    cors?: boolean;
  }
}

const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];
const KNOWN_METHODS: ReadonlySet<string> = new Set([...METHODS, 'HEAD', 'OPTIONS']);

/** Counts of requests by route, never by address: addresses contain ids and misplaced secrets. */
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
