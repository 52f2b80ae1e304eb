/**
 * What a resource can do: reads (`open`, `guarded`, and `listing` of listing.ts), changes (`accepting`, `guarded`) and makes
 * (`creating` of creating.ts).
 * Each is a description that the machinery obeys and from which documentation and forms are made.
 */
import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';
import type { Tx } from '#db/pool.ts';
import type { Charts } from '#hypermedia/chart.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import type { Advice, View } from '#hypermedia/view.ts';
import type { Comparisons } from '#core/listing.ts';
import type { Principal } from '#core/principal.ts';
import type { Fault } from '#core/problem.ts';
import type { Done } from './pages/done.ts';
import type { Params } from './route.ts';

export type ApiRequest<Body = unknown, Who = Principal> = {
  principal: Who;
  params: Params;
  query: URLSearchParams;
  /** Validated against the operation's `input`. */
  body: Body;
  /** Those that came once; names in lower case. */
  headers: Readonly<Record<string, string | undefined>>;
  /** The peer's address; what a proxy says of it counts only where the operator trusts the proxy. */
  address: string;
  now: Date;
  /**
   * To be called with the version that is about to be changed, under its lock: throws a 412 where the caller wants to
   * change another one (If-Match, RFC 9110 §13.1.1). Only where the operation says that it `isConditional`.
   */
  unmodified: (version: number | string) => void;
};

/** `isSecret` where something stands in it that is shown this once: no cache may keep it (RFC 6749 §5.1). */
export type Made = { document: Document; location: string; isSecret?: true };

export type Charted = () => Promise<Charts>;

type Shown = {
  naming?: Naming;
  page?: (view: View) => string;
  charts?: Charted;
  advice?: () => Promise<Advice | undefined>;
};

/** What goes on until one of both ends it. `open` begins it, and may throw a `Problem` in place of that; HEAD does not open it. */
export type Streamed = { status: 200; open: () => Readable };

/**
 * `naming` where the representation was frozen with its own; else the process' own counts. `page` where people are told the
 * same better than by the page that every document has. `charts` and `advice` are asked for where a page is made, and nowhere
 * else: programs do not wait for what only people are shown. `next` is where a person goes on who sent a form: to what came of it, or
 * on from what is gone; `done` what is said to them there. `location` (202) is where the work that has begun can be watched.
 */
export type Answer =
  | ({ status: 200 | 202; document: Document; location?: string; next?: string; done?: Done; isSecret?: true } & Shown)
  | ({ status: 201 } & Made)
  | Streamed
  | { status: 204; next?: string };

/** How something is made once though it is asked for twice (Idempotency-Key). */
export type Once = {
  /** What was made when the same request came before. */
  before: () => Promise<Made | undefined>;
  /** Makes it in one transaction with the memory of it. */
  make: (make: (tx: Tx) => Promise<Made>) => Promise<Made>;
};

type Review = (request: ApiRequest<Readonly<Record<string, unknown>>, Principal | null>) => Promise<readonly Fault[]>;

/** One `item`, or an array of them: each with an effect of its own, all of them together or none. */
export type Told = { item: TSchema; itemsMax: number };

export type Operation = {
  /** A few words for a button: "Create a webhook". */
  title: string;
  /** One sentence: what it does. OPTIONS, forms and the reference say it. */
  summary: string;
  /** `owner`: the platform, and in person whoever owns the store of the address. */
  access: 'anyone' | 'token' | 'owner' | 'platform';
  /** Makes something: 201, and at most once with an Idempotency-Key. */
  isCreating: boolean;
  /** Looks for an Idempotency-Key. */
  takesKey: boolean;
  /** Asks which version is about to be changed (`unmodified`): the reference tells of If-Match and 412. */
  isConditional: boolean;
  /** What came under that key remembers the machinery (`Once`); else the operation does it by itself, if it takes one. */
  isRemembered: boolean;
  input: TSchema | undefined;
  /** Where `input` lets everything in, because the operation judges it itself: what forms and the reference tell of it. */
  told: Told | undefined;
  bodyLimitBytes: number | undefined;
  /** Answers with what goes on without end, to programs alone. */
  isStream: boolean;
  /** The words its query may use; those of a listing come with `properties`. */
  modifiers: readonly string[];
  /** Of a listing: how each property of its items is compared. */
  properties: Comparisons | undefined;
  /** The same at an address whose items have these properties and no others; undefined where that is not known. */
  closedAt: ((params: Params) => Comparisons | undefined) | undefined;
  /** Throws a 404 where the caller does not reach the place: asked before a body is judged or an answer given again. */
  admit: ((request: ApiRequest<unknown, Principal | null>) => Promise<void> | undefined) | undefined;
  /** Called when `input` finds faults, with the members that have none: so that all faults of a body leave together. */
  review: Review | undefined;
  handle: (request: ApiRequest<unknown, Principal | null>, once: Once) => Promise<Answer>;
};

export type Described = {
  summary: string;
  /** The summary where it is short enough itself. */
  title?: string;
  access?: 'owner' | 'platform';
  bodyLimitBytes?: number;
  isConditional?: true;
  modifiers?: readonly string[];
};

export const operation = (
  { summary, title = summary, bodyLimitBytes, isConditional, modifiers = [] }: Described,
  rest: Pick<Operation, 'access' | 'handle'> & Partial<Operation>,
): Operation => ({
  summary,
  title,
  bodyLimitBytes,
  modifiers,
  isConditional: isConditional === true,
  isCreating: false,
  takesKey: false,
  isRemembered: false,
  isStream: false,
  input: undefined,
  told: undefined,
  admit: undefined,
  review: undefined,
  properties: undefined,
  closedAt: undefined,
  ...rest,
  handle: async (request, once) => {
    if (rest.properties === undefined) refuseParameters(request.query, modifiers);
    return rest.handle(request, once);
  },
});

/** The request once it is known that somebody asks. */
export const known = <Body>(request: ApiRequest<unknown, Principal | null>): ApiRequest<Body> => {
  const { principal, body, ...rest } = request;
  if (principal === null) throw new TypeError('The machinery let a request without a principal through');
  return { ...rest, principal, body: body as Body };
};

/** Reads something; `anyone` may ask without a token, and then has no principal. */
export const open = (
  described: Described & { handle: (request: ApiRequest<undefined, Principal | null>) => Promise<Answer> },
): Operation =>
  operation(described, {
    access: 'anyone',
    handle: (request) => described.handle({ ...request, body: undefined }),
  });

/** Needs a bearer token (of the platform where `access` says so), takes no body. */
export const guarded = (
  described: Described & { handle: (request: ApiRequest<undefined>) => Promise<Answer> },
): Operation =>
  operation(described, { access: described.access ?? 'token', handle: (request) => described.handle(known(request)) });

/** The same, and answers with what goes on without end. */
export const streaming = (
  described: Described & { handle: (request: ApiRequest<undefined>) => Promise<Streamed> },
): Operation => ({ ...guarded(described), isStream: true });

/**
 * Needs a bearer token and a body that `input` describes. `review` finds what a schema cannot say, for a body that the
 * schema has refused already.
 */
export const accepting = <Schema extends TSchema>(
  described: Described & {
    input: Schema;
    told?: Told;
    takesKey?: true;
    review?: (request: ApiRequest<Partial<Static<Schema>>>) => Promise<readonly Fault[]>;
    handle: (request: ApiRequest<Static<Schema>>) => Promise<Answer>;
  },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    takesKey: described.takesKey ?? false,
    input: described.input,
    told: described.told,
    review: async (request) => described.review?.(known(request)) ?? [],
    handle: (request) => described.handle(known(request)),
  });
