/**
 * Checks everything that does not need the body: format, version header, authentication, rate limit and access.
 */
import { parseCookie } from 'cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import type { Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { parseId } from '#core/ids.ts';
import { Problem, notFound, temporary } from '#core/problem.ts';
import {
  isPerson,
  reachesUser,
  requireOwner,
  requirePermission,
  requirePlatform,
  storeOfAddress,
  type Principal,
} from '#core/principal.ts';
import { bearerChallenge, INVALID_TOKEN } from './root.ts';
import { withoutCors } from './answers.ts';
import { KEPT_BODY_BYTES_MAX, type KeptForm } from './pages/form-post.ts';
import { redirectToPageHost, requireSameOrigin, headersOf, queryOf, pathAndQueryOf, pathOf } from './requests.ts';
import { negotiate, negotiateStream, type Representation } from '#hypermedia/render.ts';
import type { Operation } from './operation.ts';
import type { Params, RawRequest, RawResponse } from './route.ts';
import type { Services } from './services.ts';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Clock } from '#core/clock.ts';

/** A person who is signed in and uses a browser. */
export type Visitor = {
  principal: Principal;
  /** Returns the nonce for the hidden field of a form; `bound` identifies the action of the form. */
  nonceOf: (bound: readonly string[]) => string;
  isNonce: (given: string | null, bound: readonly string[]) => boolean;
  /** Returns the navigation for the header of a document's page, and the name of the store for its title. */
  nav: (document: Document) => Pick<View, 'nav' | 'store'>;
  /** Returns the form that was posted to `path`; if it confirms another one, that one, with the fields of the confirmation. */
  restored: (form: URLSearchParams, path: string) => URLSearchParams;
  /**
   * Returns undefined if the person proved a moment ago who they are, or does so with this form; otherwise the page that asks, whose
   * form repeats the request. Absent for a person who has to sign in for that.
   */
  confirm?: (request: RawRequest) => Promise<RawResponse | undefined>;
  /** Returns the address where the person has to prove who they are before the page at `path` shows secrets; undefined if it may. */
  confirmAt: (path: string) => string | undefined;
  /**
   * Returns the page where the person must set up a second factor before they see any other, or those of this store; undefined if
   * they need none.
   */
  enrolAt: (storeId: number | undefined) => string | undefined;
  /** Returns the form that was kept for the page at `path` before the person signed in, and the `Set-Cookie` that removes it. */
  takeKept: (path: string) => { form: KeptForm; cookie: string } | undefined;
  /** The origins whose pages may contain those of this session in a frame; absent without any. */
  frameOrigins?: readonly string[];
};

/** Sessions as the pages of resources need them. */
export type Pages = {
  visitorOf: (
    request: Pick<RawRequest, 'cookies' | 'now'> & Partial<Pick<RawRequest, 'address' | 'headers' | 'params'>>,
  ) => Promise<Visitor | null>;
  /** Returns the origins that may contain a page without a session in a frame. No whole session is used in one. */
  frameOriginsOf: (request: Pick<RawRequest, 'headers'>) => readonly string[];
  /** Returns the navigation of a page that is shown without a session. */
  anonymousNav: () => Markup;
  /** Returns the address of the sign-in page, which returns to `path`. */
  signInAt: (path: string) => string;
  /** Returns the `Set-Cookie` that keeps a form until the person has signed in; undefined if the form is too long. */
  keep: (form: KeptForm, now: Date) => string | undefined;
};

export type Caller = {
  representation: Representation;
  principal: Principal | null;
  /** Null for programs and for people who are not signed in. */
  visitor: Visitor | null;
  /** A browser without a token: it is authenticated by its session, and its POSTs are forms. */
  isBrowser: boolean;
  /** The origins that may contain the page in a frame; absent without any. */
  frameOrigins?: readonly string[] | undefined;
};

/** Results of the checks, for the handler and for error pages. */
const callers = new WeakMap<FastifyRequest, Caller>();
export function storedCaller(request: FastifyRequest): Caller | undefined {
  return callers.get(request);
}

/** The only supported version. */
export const API_VERSION = '1';

/** `challenge`: the header of a request that needs a token, too, for clients that know nothing but an address (RFC 9110 §11.6.1). */
function requireVersion(header: string | string[] | undefined, name: string, challenge: Record<string, string>): void {
  if (header === undefined) {
    const message = `Send the header ${name}: ${API_VERSION}`;
    throw new Problem(400, { code: 'version_required', message, field: name }, { headers: challenge });
  }
  if (header === API_VERSION) return;
  const message = `The header ${name} must be ${API_VERSION}, the one supported version`;
  throw new Problem(400, { code: 'version_unsupported', message, field: name }, { headers: challenge });
}

/** What an operation requires of its caller. */
export type Requirements = Pick<Operation, 'access' | 'scopes' | 'scopesAt'>;

/** Only requires a caller: what an operation requires is checked again later. */
const A_TOKEN: Requirements = { access: 'token', scopes: 'any', scopesAt: undefined };

/**
 * Throws a 404 if the caller cannot access the store or user of the address, and a 403 if the operation requires more
 * rights.
 */
export function requireAccess(
  { access, scopes, scopesAt }: Requirements,
  principal: Principal | null,
  { params }: Pick<FastifyRequest, 'params'>,
): void {
  if (principal === null) return;
  const { store_id: store, user_id: user } = params as Params;
  if (store !== undefined) storeOfAddress({ params: params as Params, principal });
  else if (user !== undefined && !reachesUser(principal, parseId(user) ?? NaN)) throw notFound('user');
  if (access === 'platform') requirePlatform(principal);
  const isSelf = isPerson(principal, parseId(user ?? ''));
  if (access === 'person' && !isSelf) throw notFound('user');
  if (access === 'owner' || (access === 'self' && !isSelf)) requireOwner(principal, parseId(store ?? ''));
  if (access === 'token') requirePermission(principal, scopesAt?.(params as Params) ?? scopes);
}

/** Throws a 400 for a token in the query, whatever the header contains (RFC 6750 §2.3). */
function refuseTokenInQuery(request: FastifyRequest): void {
  if (!queryOf(request).has('access_token')) return;
  throw new Problem(400, {
    code: 'invalid_request',
    message: 'Send the access token in the Authorization header, never in the address',
    field: 'access_token',
  });
}

/**
 * Returns the bearer token of an `Authorization` header (RFC 6750 §2.1); undefined without the header or with another
 * scheme.
 */
export function bearerTokenOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
}

/** Returns the challenge if a required token was not sent; no header otherwise. */
function challengeOf(services: Services, request: FastifyRequest, access: Operation['access']): Record<string, string> {
  if (access === 'anyone' || bearerTokenOf(request.headers.authorization) !== undefined) return {};
  return { 'WWW-Authenticate': bearerChallenge(services.naming.baseUrl) };
}

/** Throws a 401 with a challenge if a required token was not sent. The challenge has no error code (RFC 6750 §3.1). */
function requireToken(challenge: Record<string, string>): void {
  if (Object.keys(challenge).length === 0) return;
  const message = 'Send an access token in the header Authorization: Bearer <token>';
  throw new Problem(401, { code: 'invalid_token', message, description: INVALID_TOKEN }, { headers: challenge });
}

/** Returns the principal of the bearer token; null if none was sent. */
async function authenticateBearer(services: Services, request: FastifyRequest) {
  const token = bearerTokenOf(request.headers.authorization);
  return token === undefined ? null : services.authenticate(token, services.clock.now());
}

/** Checks the token of a request to an endpoint that is no resource, and takes the request from the rate limit of its grant. */
export async function requireBearer(services: Services, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  refuseTokenInQuery(request);
  requireToken(challengeOf(services, request, 'token'));
  reply.headers(services.rateLimit(await authenticateBearer(services, request)));
}

/**
 * Returns the visitor of the session. Redirects people without a session to the sign-in page, and page requests on the
 * API's own host to the host of the pages.
 */
async function authenticateVisitor(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  access: Operation['access'],
): Promise<Visitor | null> {
  if (request.method === 'POST') requireSameOrigin(request, services.settings.authOrigin);
  await redirectToPageHost(request, reply, services.settings);
  if (reply.sent) return null;
  const cookies = parseCookie(request.headers.cookie ?? '');
  const visitor = await services.pages.visitorOf({
    cookies,
    address: request.ip,
    headers: headersOf(request),
    params: request.params as Params,
    now: services.clock.now(),
  });
  // The handler reads a form, to keep it through the sign-in.
  const isForm = request.method === 'POST' && Number(request.headers['content-length']) <= KEPT_BODY_BYTES_MAX;
  if (visitor === null && access !== 'anyone' && !isForm) {
    const returnPath = request.method === 'POST' ? pathOf(request) : pathAndQueryOf(request);
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    reply.redirect(services.pages.signInAt(returnPath), 303);
  }
  const enrolAt = visitor?.enrolAt(parseId((request.params as Params)['store_id'] ?? ''));
  if (enrolAt !== undefined) {
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    reply.redirect(enrolAt, 303);
    return null;
  }
  return visitor;
}

/**
 * Methods that pages and their forms send. No other method is authenticated by a session, because only forms are
 * protected by a nonce.
 */
const BROWSER_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST']);

/**
 * Returns whether the request is from a browser without a token: it is authenticated by its session, and its POSTs are
 * forms.
 */
export function isBrowserRequest({ method, headers }: FastifyRequest, { format }: Representation): boolean {
  return format.isPage === true && headers.authorization === undefined && BROWSER_METHODS.has(method);
}

/**
 * Identifies the caller, for `storedCaller`. Requests for pages without a token are authenticated by the session, all others by version
 * header and bearer token. After a redirect `reply.sent` is true.
 */
export async function identifyCaller(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  requirements: Requirements & { admits: boolean; isDocumentation: boolean; isStream: boolean },
): Promise<void> {
  const { accept } = request.headers;
  const representation = requirements.isStream ? negotiateStream(accept) : negotiate(accept);
  const isPage = representation.format.isPage === true;
  const { isDocumentation } = requirements;
  const isBrowser = isBrowserRequest(request, representation);
  // A form's method is in its body, so access is checked again after parsing.
  const access = isBrowser && request.method === 'POST' ? 'token' : requirements.access;
  const { versionHeader } = services.settings;
  refuseTokenInQuery(request);
  const challenge = isBrowser ? {} : challengeOf(services, request, access);
  if (!isPage && !isDocumentation)
    requireVersion(request.headers[versionHeader.toLowerCase()], versionHeader, challenge);
  requireToken(challenge);
  if (isBrowser) withoutCors(reply);
  const visitor = isBrowser ? await authenticateVisitor(services, request, reply, access) : null;
  const principal = isBrowser ? (visitor?.principal ?? null) : await authenticateBearer(services, request);
  // Before the access check, so that a refusal has the navigation of the person, and rejected requests count, too.
  const frameOrigins =
    isBrowser && visitor === null
      ? services.pages.frameOriginsOf({ headers: headersOf(request) })
      : visitor?.frameOrigins;
  callers.set(request, { representation, principal, visitor, isBrowser, frameOrigins });
  reply.headers(services.rateLimit(principal));
  // With `admit`, access is checked after the object was found: an object of others is a 404, not a 403.
  requireAccess(requirements.admits ? A_TOKEN : { ...requirements, access }, principal, request);
}

export type RateLimitSettings = {
  /** 0: no limit. */
  requestsPerSecond: number;
  burstRequests: number;
};

/**
 * Takes one request from the bucket and returns the response headers; throws a 429 with them if the bucket is empty. Headers as in
 * draft-ietf-httpapi-ratelimit-headers: `r` requests remain, the bucket is full in `t` seconds.
 */
export type RateLimit = (principal: Principal | null) => Readonly<Record<string, string>>;

const NONE = {};

/** Requests by grant. */
export type Taken = ReadonlyMap<string, number>;
/** Sends what this process took to the other processes of its supervisor, and receives what they took. */
export type TakenChannel = { send: (taken: Taken) => void; receive: (handler: (taken: Taken) => void) => void };

const SHARE_EVERY_MS = 25;

/** Returns a function that counts a request of a grant, and sends the counts of an interval together. */
function createSharing(send: TakenChannel['send']): (key: string) => void {
  let taken = new Map<string, number>();
  const flush = () => {
    const counted = taken;
    taken = new Map();
    send(counted);
  };
  return (key) => {
    if (taken.size === 0) setTimeout(flush, SHARE_EVERY_MS).unref();
    taken.set(key, (taken.get(key) ?? 0) + 1);
  };
}

const GRANTS_MAX = 100_000;

/**
 * Creates the rate limit: a grant has a token bucket in memory on each machine, because in the database it would cost a write per request.
 * The only value of a bucket is the time when it will be full again (generic cell rate algorithm). With a channel, the processes of a
 * supervisor share what they take every 25 ms, so requests that others allow within one interval may exceed the limit.
 */
export function createRateLimit(
  { requestsPerSecond, burstRequests }: RateLimitSettings,
  clock: Pick<Clock, 'monotonicMs'>,
  channel?: TakenChannel,
): RateLimit {
  if (requestsPerSecond === 0) return () => NONE;
  const fullAtMs = new LRUCache<string, number>(entriesUpTo(GRANTS_MAX));
  const costMs = 1_000 / requestsPerSecond;
  const share = channel === undefined ? undefined : createSharing(channel.send);
  channel?.receive((taken) => {
    const nowMs = clock.monotonicMs();
    for (const [key, requests] of taken)
      fullAtMs.set(key, Math.max(fullAtMs.get(key) ?? nowMs, nowMs) + requests * costMs);
  });
  const policy = `"default";q=${burstRequests};w=${Math.ceil(burstRequests / requestsPerSecond)}`;
  return (principal) => {
    if (principal === null || principal.scope === 'platform') return NONE;
    const key = principal.grantId === null ? `user ${principal.userId}` : `grant ${principal.grantId}`;
    const nowMs = clock.monotonicMs();
    const before = Math.max(fullAtMs.get(key) ?? nowMs, nowMs);
    const after = before + costMs;
    const remaining = Math.floor(burstRequests - (after - nowMs) / costMs + 1e-6);
    const headers = (r: number, fullMs: number) => ({
      'RateLimit-Policy': policy,
      RateLimit: `"default";r=${r};t=${Math.ceil((fullMs - nowMs) / 1_000)}`,
    });
    if (remaining >= 0) {
      fullAtMs.set(key, after);
      share?.(key);
      return headers(remaining, after);
    }
    const waitSeconds = Math.ceil((after - nowMs - burstRequests * costMs) / 1_000);
    const message = `More than ${requestsPerSecond} requests a second; wait ${waitSeconds} s`;
    throw temporary(429, { code: 'too_many_requests', message }, waitSeconds, { headers: headers(0, before) });
  };
}
