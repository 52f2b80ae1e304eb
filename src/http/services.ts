/** What the machinery needs from the rest of the installation; app.ts hands it in. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Naming } from '#hypermedia/document.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { Problem } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import type { Pages } from './caller.ts';
import { newLogref, toProblem } from './errors.ts';
import type { createOnce } from './idempotency/once.ts';
import type { RequestMetrics } from './metrics.ts';
import type { RateLimit } from './rate-limit.ts';
import type { Params } from './route.ts';

export type ErrorHandler = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => void;

export type HttpSettings = {
  bodyLimitBytes: number;
  headersLimitBytes: number;
  requestTimeoutMs: number;
  /** Networks of proxies whose `X-Forwarded-For` is believed; from anybody else it is ignored. */
  trustedProxies: readonly string[];
  versionHeader: string;
  /** The origin whose pages may post forms. */
  authOrigin: string;
  /** The API's origin; where its host is another than that of `authOrigin`, no page is served on it. */
  apiOrigin: string;
  /** The path that a page leads to when it could not be shown. */
  home: string;
};

export type Services = {
  settings: HttpSettings;
  naming: Naming;
  clock: Clock;
  log: Log;
  pages: Pages;
  rateLimit: RateLimit;
  metrics: RequestMetrics;
  once: ReturnType<typeof createOnce>;
  /** A bearer token → who it stands for; throws a 401 Problem. */
  authenticate: (token: string, now: Date) => Promise<Principal>;
  /** Returns why the database cannot be used, where an error says so. */
  whyUnavailable: (error: unknown) => string | undefined;
};

export const rawQueryOf = (request: FastifyRequest): string => {
  const at = request.url.indexOf('?');
  return at === -1 ? '' : request.url.slice(at + 1);
};

/** The query as it came: a repeated parameter stays repeated. */
export const queryOf = (request: FastifyRequest): URLSearchParams => new URLSearchParams(rawQueryOf(request));

/** The headers that came once, by their names in lower case. */
export const headersOf = (request: FastifyRequest): Record<string, string | undefined> => {
  const headers: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(request.headers)) if (typeof value === 'string') headers[name] = value;
  return headers;
};

/**
 * The address as the log has it: the route, with the ids that are in it. Anything else that stands in an address may be a
 * token that somebody put in the wrong place, and is left out.
 */
const addressForLog = ({ routeOptions, params }: FastifyRequest): string | undefined =>
  routeOptions.url?.replaceAll(/:(\w+)/g, (parameter, name: string) => {
    const value = (params as Params)[name] ?? '';
    return /^[0-9]{1,16}$/.test(value) ? value : parameter;
  });

/** Whatever was thrown, as a Problem that stands in the log under `logref`: once, here, where it is handled. */
export const reportProblem = (
  services: Services,
  request: FastifyRequest,
  thrown: unknown,
): { problem: Problem; logref: string } => {
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
};

/** What a request names before the path where it names a whole address (RFC 9112 §3.2.2), with any host. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** The path that was asked for; the root where the target has none, such as `?x` or `#x`. */
export const pathOf = ({ url }: FastifyRequest): string => {
  const path = url.replace(ORIGIN, '').split(/[?#]/, 1)[0] ?? '';
  return path.startsWith('/') ? path : `/${path}`;
};

/** Path and query, for a redirect to the same on another host or after a sign-in. */
export const targetOf = (request: FastifyRequest): string => {
  const query = rawQueryOf(request);
  return query === '' ? pathOf(request) : `${pathOf(request)}?${query}`;
};

/** The same at the public address. */
export const addressOf = (request: FastifyRequest, { naming }: Services): string =>
  new URL(pathOf(request), naming.baseUrl).href;

/** 405, and `Allow` says what is possible (RFC 9110 §15.5.6). */
export const methodNotAllowed = ({ method }: FastifyRequest, allow: string): Problem => {
  const message = `${method} is not possible here; possible are ${allow}`;
  return new Problem(405, { code: 'method_not_allowed', message }, { headers: { Allow: allow } });
};

/** Refuses every method that the route does not serve; `alsoServed` are those that are not talked of. */
export const refuseOtherMethods = (
  app: FastifyInstance,
  route: { path: string; allow: string; alsoServed?: readonly string[]; cors: boolean; errorHandler?: ErrorHandler },
): void => {
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
};

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether pages of any origin may read the answers of this route. */
    cors?: boolean;
  }
}
