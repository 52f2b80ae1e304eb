/**
 * What is read from a request: its query, its headers, its address and the route that the address has. Methods that no route serves are
 * refused, errors are logged and responses counted by route, because addresses contain ids and misplaced secrets.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import findMyWay from 'find-my-way';
import { Counter, Histogram, type Registry } from '@prometheus-io/client';
import { Problem } from '#core/problem.ts';
import { contextOf, endSpan, readTraceContext, startSpan, traceHeaders, traceIdOf } from '#core/tracing.ts';
import { corsHeaders } from './answers.ts';
import { newLogref, toProblem } from './errors.ts';
import { METHODS, type Params } from './route.ts';
import type { HttpSettings, Services } from './services.ts';

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

/** The scheme and host of a request target in absolute form (RFC 9112 §3.2.2). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** Returns the requested path; the root if the target has none, such as `?x` or `#x`. */
export function pathOf({ url }: FastifyRequest): string {
  const path = url.replace(ORIGIN, '').split(/[?#]/, 1)[0] ?? '';
  return path.startsWith('/') ? path : `/${path}`;
}

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
    trace_id: traceIdOf(readTraceContext(request.headers)),
    err: problem.cause,
  };
  if (problem.status >= 500) services.log.error(line, problem.message);
  else services.log.debug(line, problem.message);
  return { problem, logref };
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

/**
 * Returns whether a request was sent by one of our own pages, according to `Sec-Fetch-Site`, else `Origin`. A request
 * with neither is not: every browser that can store our cookie sends one of them. Header names are in lower case.
 */
export function isSameOrigin(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ownOrigin: string,
): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? headers['origin'] === ownOrigin : site === 'same-origin';
}

/** Throws a 403 unless the form was posted by one of our own pages. */
export function requireSameOrigin({ headers }: FastifyRequest, ownOrigin: string): void {
  if (isSameOrigin(headers, ownOrigin)) return;
  const message = 'This form was not sent from a page of this site; open the page here and send it again';
  throw new Problem(403, { code: 'cross_site_request', message });
}

/**
 * Redirects page requests on the API's host to the host of AUTH_URL, where pages and their cookie live, and rejects
 * forms there. Any other host name may be that of a proxy and is accepted.
 */
export async function redirectToPageHost(
  request: FastifyRequest,
  reply: FastifyReply,
  { authOrigin, apiOrigin }: HttpSettings,
) {
  const [own, apiHost] = [new URL(authOrigin).host, new URL(apiOrigin).host];
  if (own === apiHost || request.host !== apiHost) return;
  if (request.method !== 'POST') {
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    return reply.redirect(authOrigin + pathAndQueryOf(request), 302);
  }
  const message = `Forms are accepted at ${authOrigin} only: open the page there and send it again`;
  throw new Problem(403, { code: 'cross_site_request', message });
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether scripts of any origin may read responses of this route. */
    cors?: boolean;
  }
}

export type ErrorHandler = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** Returns a 405 with the header `Allow` (RFC 9110 §15.5.6). */
export function methodNotAllowed({ method }: FastifyRequest, allow: string): Problem {
  const message = `${method} is not possible here; allowed: ${allow}`;
  return new Problem(405, { code: 'method_not_allowed', message }, { headers: { Allow: allow } });
}

/** What an address serves; `alsoServed` is not listed in `Allow`. `errorHandler` replaces the common error format. */
type Served = {
  path: string;
  isResource?: true;
  allow: string;
  alsoServed?: readonly string[];
  cors: boolean;
  errorHandler?: ErrorHandler;
};

const methodsOf = ({ allow, alsoServed = [] }: Served): string[] => [...allow.split(', '), ...alsoServed];

/** How addresses are matched with the paths of routes. */
export const ROUTER = { ignoreTrailingSlash: false, maxParamLength: 255 } as const;

type Segments = readonly string[];

/** Returns whether a path matches all addresses of the other path. */
const covers = (general: Segments, exact: Segments): boolean =>
  general.length === exact.length && general.every((segment, at) => segment === exact[at] || segment.startsWith(':'));

/** Returns whether an address can match both paths. */
const overlap = (one: Segments, other: Segments): boolean =>
  one.length === other.length &&
  one.every((segment, at) => segment === other[at] || segment.startsWith(':') || other[at]?.startsWith(':') === true);

/** The addresses of requests that reached no route, because none serves their method. */
const unserved = new WeakMap<FastifyRequest, { served: Served; params: Params }>();

/**
 * The addresses of all routes, for a 405 with `Allow` to every other method: one lookup for a request that reached no route. A route
 * for each of the 35 methods that Node reads took 39 ms of each start and 8 MiB.
 */
export function createAddresses() {
  const router = findMyWay(ROUTER);
  const all: { served: Served; segments: Segments }[] = [];
  return {
    add: (served: Served): void => {
      const segments = served.path.split('/');
      const crossing = all.find(
        (one) => overlap(one.segments, segments) && !covers(one.segments, segments) && !covers(segments, one.segments),
      );
      if (crossing)
        throw new TypeError(
          `${served.path} and ${crossing.served.path} can match one address, and none is more general`,
        );
      all.push({ served, segments });
      router.on('GET', served.path, () => undefined, served);
    },
    /** Returns whether a path is that of a resource. */
    isResource: (path: string): boolean => (router.find('GET', path)?.store as Served | undefined)?.isResource === true,
    /** Throws a 405 if the address of a request that reached no route serves other methods. */
    refuseUnserved: (request: FastifyRequest, reply: FastifyReply): void => {
      const found = router.find('GET', pathOf(request));
      const served = found?.store as Served | undefined;
      if (!found || !served) return;
      unserved.set(request, { served, params: found.params as Params });
      if (served.cors) reply.headers(corsHeaders);
      throw methodNotAllowed(request, served.allow);
    },
    /** Refuses methods that only a more general path serves, which would get the request: `POST /stores/1/events/2`. */
    refuseShadowed: (app: FastifyInstance): void => {
      for (const { served, segments } of all) {
        const { path, allow, cors, errorHandler } = served;
        const covering = all.filter((other) => covers(other.segments, segments));
        const methods = new Set(covering.flatMap((other) => methodsOf(other.served)));
        const method = [...methods].filter((name) => !methodsOf(served).includes(name));
        if (method.length === 0) continue;
        app.route({
          method,
          url: path,
          config: { cors },
          ...(errorHandler && { errorHandler }),
          onRequest: async (request) => {
            throw methodNotAllowed(request, allow);
          },
          handler: async () => undefined,
        });
      }
    },
  };
}

export type Addresses = ReturnType<typeof createAddresses>;

/** Returns the error handler of an address with an error format of its own, for a request that reached no route. */
export function errorHandlerOf(request: FastifyRequest): ErrorHandler | undefined {
  return unserved.get(request)?.served.errorHandler;
}

/** Returns the path of the route with its parameters, also of a request with a method that the route does not serve. */
function routeOf(request: FastifyRequest): { path: string | undefined; params: Params } {
  const address = unserved.get(request);
  if (address) return { path: address.served.path, params: address.params };
  return { path: request.routeOptions.url, params: request.params as Params };
}

/**
 * Returns the address for the log: the route with its ids. Everything else is omitted, because it may be a misplaced
 * token.
 */
function addressForLog(request: FastifyRequest): string | undefined {
  const { path, params } = routeOf(request);
  return path?.replaceAll(/:(\w+)/g, (parameter, name: string) => {
    const value = params[name] ?? '';
    return /^[0-9]{1,16}$/.test(value) ? value : parameter;
  });
}

const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];
const KNOWN_METHODS: ReadonlySet<string> = new Set([...METHODS, 'HEAD', 'OPTIONS']);

/**
 * Creates the metrics, and returns the function that records the responses of a server. Routes, methods and statuses are few, so the
 * number of series is bounded.
 */
export function createRequestMetrics(registry: Registry): (app: FastifyInstance) => void {
  const registers = [registry];
  const requests = new Counter({
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
  return (app) => {
    app.addHook('onResponse', (request, reply, done) => {
      const method = KNOWN_METHODS.has(request.method) ? request.method : 'other';
      const route = routeOf(request).path ?? 'none';
      requests.inc({ method, route, status: reply.statusCode });
      seconds.observe({ method, route }, reply.elapsedTime / 1_000);
      done();
    });
  };
}

/**
 * Gives each request a span. What the request causes finds the span in its headers, as if it had come from there. The route is named, and not the
 * address, which contains ids and misplaced secrets.
 */
export function traceRequests(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    const { headers } = request.raw;
    const method = KNOWN_METHODS.has(request.method) ? request.method : '_OTHER';
    const route = request.routeOptions.url;
    const span = startSpan({
      name: route === undefined ? method : `${method} ${route}`,
      kind: 'SERVER',
      parent: readTraceContext(headers),
      attributes: { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) },
    });
    if (span === undefined) return;
    const [, traceparent, , tracestate] = traceHeaders(contextOf(span));
    Object.assign(headers, { traceparent, tracestate });
    reply.raw.once('close', () => {
      const { statusCode } = reply;
      endSpan(span, statusCode >= 500 ? String(statusCode) : undefined, { 'http.response.status_code': statusCode });
    });
  });
}
