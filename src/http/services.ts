/** Dependencies of src/http, provided by server/compose.ts. */
import type { Document, Naming } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Principal } from '#core/principal.ts';
import type { Pages, RateLimit } from './caller.ts';
import type { createIdempotency } from './idempotency.ts';
import type { createRequestMetrics } from './requests.ts';

export type HttpSettings = {
  bodyLimitBytes: number;
  headersLimitBytes: number;
  requestTimeoutMs: number;
  unsentMs: number;
  unsentBytesMax: number;
  arrivingBytesMax: number;
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
  watchRequests: ReturnType<typeof createRequestMetrics>;
  idempotency: ReturnType<typeof createIdempotency>;
  /** Returns the principal of a bearer token; throws a 401 Problem. */
  authenticate: (token: string, now: Date) => Promise<Principal>;
  /** Called before a request, unless it only probes the health of the process. */
  beforeRequest: () => Promise<unknown> | undefined;
  /** Called before the response to a request that may have changed something. */
  beforeReply: () => Promise<void> | undefined;
  /** Whether the process will soon close its port: each response then ends its connection. */
  isStopping: () => boolean;
  /** Returns why the database is unavailable, if the error says so. */
  whyUnavailable: (error: unknown) => string | undefined;
};
