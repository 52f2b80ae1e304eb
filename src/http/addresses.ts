/** The addresses of the routes: which one a request reached, and a 405 to methods that none serves. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import findMyWay from 'find-my-way';
import { Problem } from '#core/problem.ts';
import { corsHeaders } from './cors.ts';
import type { Params } from './route.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether scripts of any origin may read responses of this route. */
    cors?: boolean;
  }
}

/** The scheme and host of a request target in absolute form (RFC 9112 §3.2.2). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** Returns the requested path; the root if the target has none, such as `?x` or `#x`. */
export function pathOf({ url }: FastifyRequest): string {
  const path = url.replace(ORIGIN, '').split(/[?#]/, 1)[0] ?? '';
  return path.startsWith('/') ? path : `/${path}`;
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
  allow: string;
  alsoServed?: readonly string[];
  cors: boolean;
  errorHandler?: ErrorHandler;
};

const methodsOf = ({ allow, alsoServed = [] }: Served): string[] => [...allow.split(', '), ...alsoServed];

/** How addresses are matched with the paths of routes. */
export const ROUTER = { ignoreTrailingSlash: false, maxParamLength: 128 } as const;

/** Whether the segments of a general path match all addresses of the other path, too. */
const covers = (general: readonly string[], exact: readonly string[]): boolean =>
  general.length === exact.length && general.every((segment, at) => segment === exact[at] || segment.startsWith(':'));

/** The addresses of requests that reached no route, because none serves their method. */
const unserved = new WeakMap<FastifyRequest, { served: Served; params: Params }>();

/**
 * The addresses of all routes, for a 405 with `Allow` to every other method: one lookup for a request that reached no route. A route
 * for each of the 35 methods that Node reads took 39 ms of each start and 8 MiB.
 */
export function createAddresses() {
  const router = findMyWay(ROUTER);
  const all: { served: Served; segments: readonly string[] }[] = [];
  return {
    add: (served: Served): void => {
      all.push({ served, segments: served.path.split('/') });
      router.on('GET', served.path, () => undefined, served);
    },
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

/** Returns what sends an error to a request that reached no route, if its address has a format of its own. */
export function errorHandlerOf(request: FastifyRequest): ErrorHandler | undefined {
  return unserved.get(request)?.served.errorHandler;
}

/** Returns the path of the route with its parameters, also of a request with a method that the route does not serve. */
export function routeOf(request: FastifyRequest): { path: string | undefined; params: Params } {
  const address = unserved.get(request);
  if (address) return { path: address.served.path, params: address.params };
  return { path: request.routeOptions.url, params: request.params as Params };
}

/**
 * Returns the address for the log: the route with its ids. Everything else is omitted, because it may be a misplaced
 * token.
 */
export function addressForLog(request: FastifyRequest): string | undefined {
  const { path, params } = routeOf(request);
  return path?.replaceAll(/:(\w+)/g, (parameter, name: string) => {
    const value = params[name] ?? '';
    return /^[0-9]{1,16}$/.test(value) ? value : parameter;
  });
}
