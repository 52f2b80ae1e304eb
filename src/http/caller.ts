/** Who asks, for what, in which format: everything that is judged before a body is read. */
import { parseCookie } from 'cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { parseId } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { reachesUser, requireOwner, requirePlatform, storeOfAddress, type Principal } from '#core/principal.ts';
import { bearerTokenOf } from './bearer-token.ts';
import { withoutCors } from './cors.ts';
import { leaveForeignHost, requireSameOrigin } from './pages/own-pages.ts';
import { negotiate, negotiateStream, type Representation } from './negotiate.ts';
import type { Operation } from './operation.ts';
import type { Params } from './route.ts';
import { pathOf, queryOf, targetOf, type Services } from './services.ts';

/** Somebody who is signed in and looks with a browser. */
export type Visitor = {
  principal: Principal;
  /** For the hidden field of a form; `bound` is what the form does. */
  nonceOf: (bound: readonly string[]) => string;
  isNonce: (given: string | null, bound: readonly string[]) => boolean;
  /** The way around, for the header of a page of this document. */
  nav: (document: Document) => Markup;
};

/** What the pages of resources need from whoever keeps sessions. */
export type Pages = {
  visitorOf: (request: { cookies: Readonly<Record<string, string | undefined>>; now: Date }) => Promise<Visitor | null>;
  /** For the header of a page that anybody may read. */
  strangersNav: () => Markup;
  /** Where somebody who is not signed in is sent; comes back to `path`. */
  signInAt: (path: string) => string;
};

export type Caller = {
  representation: Representation;
  principal: Principal | null;
  /** Null for programs, and for a person who is not signed in. */
  visitor: Visitor | null;
  /** A browser without a token: its session counts, and what it posts are forms. */
  isBrowser: boolean;
};

/** What the checks before the body found, kept for the handler and for the page of an error. */
const callers = new WeakMap<FastifyRequest, Caller>();
export const keepCaller = (request: FastifyRequest, caller: Caller): void => void callers.set(request, caller);
export const callerIn = (request: FastifyRequest): Caller | undefined => callers.get(request);

/** The one there is. */
export const API_VERSION = '1';

const requireVersion = (header: string | string[] | undefined, name: string): void => {
  if (header === undefined) {
    const message = `Send the header ${name}: ${API_VERSION}`;
    throw new Problem(400, { code: 'version_required', message, field: name });
  }
  if (header === API_VERSION) return;
  const message = `The header ${name} must be ${API_VERSION}, the one supported version`;
  throw new Problem(400, { code: 'version_unsupported', message, field: name });
};

/** Throws a 404 where the store or the person of the address is out of reach, and a 403 where something is for others to do. */
export const requireAccess = (
  access: Operation['access'],
  principal: Principal | null,
  { params }: Pick<FastifyRequest, 'params'>,
): void => {
  if (principal === null) return;
  const { store_id: store, user_id: user } = params as Params;
  if (store !== undefined) storeOfAddress({ params: params as Params, principal });
  else if (user !== undefined && !reachesUser(principal, parseId(user) ?? NaN)) throw notFound('user');
  if (access === 'platform') requirePlatform(principal);
  if (access === 'owner') requireOwner(principal, parseId(store ?? ''));
};

/** A token in the query is refused, whatever the header says (RFC 6750 §2.3). */
const refuseTokenInQuery = (request: FastifyRequest): void => {
  if (!queryOf(request).has('access_token')) return;
  throw new Problem(400, {
    code: 'invalid_request',
    message: 'Send the access token in the Authorization header, never in the address',
    field: 'access_token',
  });
};

/** The bearer's principal; null where no token is needed and none was sent. */
const bearerOf = async (services: Services, request: FastifyRequest, access: Operation['access']) => {
  const token = bearerTokenOf(request.headers.authorization);
  if (token !== undefined) return services.authenticate(token, services.clock.now());
  if (access === 'anyone') return null;
  throw new Problem(
    401,
    { code: 'invalid_token', message: 'The access token provided is invalid' },
    { headers: { 'WWW-Authenticate': 'Bearer realm="halcyon"' } },
  );
};

/** Sends somebody who has to sign in to do so, and a look on the API's own host over to that of the pages. */
const visit = async (
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  access: Operation['access'],
): Promise<Visitor | null> => {
  if (request.method === 'POST') requireSameOrigin(request, services.settings.authOrigin);
  await leaveForeignHost(request, reply, services.settings);
  if (reply.sent) return null;
  const cookies = parseCookie(request.headers.cookie ?? '');
  const visitor = await services.pages.visitorOf({ cookies, now: services.clock.now() });
  if (visitor === null && access !== 'anyone') {
    const back = request.method === 'POST' ? pathOf(request) : targetOf(request);
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    reply.redirect(services.pages.signInAt(back), 303);
  }
  return visitor;
};

/** What a page and its forms can send. A session changes nothing in another way: only what forms send is guarded. */
const BROWSED: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST']);

/** Whether a browser asks that has no token: its session counts, and what it posts are forms. */
export const isBrowsing = ({ method, headers }: FastifyRequest, { format }: Representation): boolean =>
  format.isPage === true && headers.authorization === undefined && BROWSED.has(method);

/**
 * Whoever asks for a page and shows no token comes with a session; everybody else with the version header and a bearer
 * token. Where the answer was given here already (a redirect), `reply.sent` says so.
 */
export const callerOf = async (
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: { access: Operation['access']; isDocumentation: boolean; isStream: boolean },
): Promise<Caller> => {
  const { accept } = request.headers;
  const representation = asked.isStream ? negotiateStream(accept) : negotiate(accept);
  const isPage = representation.format.isPage === true;
  const { isDocumentation } = asked;
  const isBrowser = isBrowsing(request, representation);
  // A form hides what it does in its body: what that needs is asked once it is read.
  const access = isBrowser && request.method === 'POST' ? 'token' : asked.access;
  const { versionHeader } = services.settings;
  if (!isPage && !isDocumentation) requireVersion(request.headers[versionHeader.toLowerCase()], versionHeader);
  refuseTokenInQuery(request);
  if (isBrowser) withoutCors(reply);
  const visitor = isBrowser ? await visit(services, request, reply, access) : null;
  const principal = isBrowser ? (visitor?.principal ?? null) : await bearerOf(services, request, access);
  // Before it is said what the caller may not do: asking for that costs as much.
  reply.headers(services.rateLimit(principal));
  requireAccess(access, principal, request);
  return { representation, principal, visitor, isBrowser };
};
