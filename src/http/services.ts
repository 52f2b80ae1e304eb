/** What the machinery needs from the rest of the house; app.ts hands it in. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Naming } from '#hypermedia/document.ts';
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import { Problem } from '#kernel/problem.ts';
import type { Principal } from '#kernel/principal.ts';

type HttpSettings = {
  bodyLimitBytes: number;
  headersLimitBytes: number;
  requestTimeoutMs: number;
  versionHeader: string;
  /** The origin whose pages may post forms. */
  authOrigin: string;
};

export type Services = {
  settings: HttpSettings;
  naming: Naming;
  clock: Clock;
  log: Log;
  /** A bearer token → who it stands for; throws a 401 Problem. */
  authenticate: (token: string, now: Date) => Promise<Principal>;
  isUnavailable: (error: unknown) => boolean;
};

/** The query as it came: a repeated parameter stays repeated. */
export const queryOf = (request: FastifyRequest): URLSearchParams => {
  const at = request.url.indexOf('?');
  return new URLSearchParams(at === -1 ? '' : request.url.slice(at + 1));
};

/** Every method that the route does not serve: 405, and `Allow` says what is possible (RFC 9110 §15.5.6). */
export const refuseOtherMethods = (
  app: FastifyInstance,
  { path, allow, cors }: { path: string; allow: string; cors: boolean },
): void => {
  const served = new Set(allow.split(', '));
  app.route({
    method: app.supportedMethods.filter((method) => !served.has(method)),
    url: path,
    config: { cors },
    onRequest: async (request) => {
      const message = `${request.method} is not possible here; possible are ${allow}`;
      throw new Problem(405, { code: 'method_not_allowed', message }, { headers: { Allow: allow } });
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
