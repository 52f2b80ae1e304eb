/**
 * What stands behind an address. A **resource** answers with Documents and knows no format; a **door** (a page, a form,
 * an OAuth endpoint) reads the raw request and writes the raw answer. HEAD, OPTIONS and 405 are made by the machinery.
 */
import type { Static, TSchema } from 'typebox';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { Principal } from '#kernel/principal.ts';
import type { Fault, Problem } from '#kernel/problem.ts';
import { problemPage } from './problem-page.ts';

export type Params = Readonly<Record<string, string>>;

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
};

/**
 * `naming` where the representation was frozen with its own; else the process' own counts. `isSecret` where something stands
 * in it that is shown this once: no cache may keep it (RFC 6749 §5.1).
 */
export type Answer =
  | { status: 200 | 202; document: Document; naming?: Naming }
  | { status: 201; document: Document; location: string; isSecret?: true }
  | { status: 204 };

export type Operation = {
  /** One sentence: what it does. OPTIONS answers it. */
  summary: string;
  access: 'anyone' | 'token' | 'platform';
  input: TSchema | undefined;
  bodyLimitBytes: number | undefined;
  /** Called when `input` finds faults, with the members that have none: so that all faults of a body leave together. */
  review: Review | undefined;
  handle: (request: ApiRequest<unknown, Principal | null>) => Promise<Answer>;
};

type Review = (request: ApiRequest<Readonly<Record<string, unknown>>, Principal | null>) => Promise<readonly Fault[]>;

type Described = { summary: string; bodyLimitBytes?: number };

const operation = (
  described: Described,
  rest: Pick<Operation, 'access' | 'input' | 'handle'> & { review?: Review | undefined },
): Operation => ({ summary: described.summary, bodyLimitBytes: described.bodyLimitBytes, review: undefined, ...rest });

/** Reads something; `anyone` may ask without a token, and then has no principal. */
export const open = (
  described: Described & { handle: (request: ApiRequest<undefined, Principal | null>) => Promise<Answer> },
): Operation =>
  operation(described, {
    access: 'anyone',
    input: undefined,
    handle: (request) => described.handle({ ...request, body: undefined }),
  });

/** Needs a bearer token (of the platform where `access` says so), takes no body. */
export const guarded = (
  described: Described & { access?: 'platform'; handle: (request: ApiRequest<undefined>) => Promise<Answer> },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    input: undefined,
    handle: ({ principal, ...request }) => {
      if (principal === null) throw new TypeError('The machinery let a request without a principal through');
      return described.handle({ ...request, principal, body: undefined });
    },
  });

/**
 * Needs a bearer token and a body that `input` describes. `review` finds what a schema cannot say, for a body that the
 * schema has refused already.
 */
export const accepting = <Schema extends TSchema>(
  described: Described & {
    access?: 'platform';
    input: Schema;
    review?: (request: ApiRequest<Partial<Static<Schema>>>) => Promise<readonly Fault[]>;
    handle: (request: ApiRequest<Static<Schema>>) => Promise<Answer>;
  },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    input: described.input,
    review: async ({ principal, body, ...request }) =>
      principal === null || described.review === undefined
        ? []
        : described.review({ ...request, principal, body: body as Partial<Static<Schema>> }),
    handle: ({ principal, body, ...request }) => {
      if (principal === null) throw new TypeError('The machinery let a request without a principal through');
      return described.handle({ ...request, principal, body: body as Static<Schema> });
    },
  });

export const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;
export type Method = (typeof METHODS)[number];

export type Resource = { kind: 'resource'; path: string; operations: Partial<Record<Method, Operation>> };

export type DoorRequest = {
  method: string;
  /** As it was asked for, without the query. */
  path: string;
  params: Params;
  /** Raw, so that a repeated parameter can be seen. */
  query: URLSearchParams;
  /** The query as text, without `?`: what tells broken UTF-8 from a U+FFFD that was meant. */
  rawQuery: string;
  /** The form body; empty where there was none or it was of another type. */
  form: URLSearchParams;
  /** The body as it came. */
  bytes: Uint8Array;
  contentType: string;
  headers: Readonly<Record<string, string | undefined>>;
  cookies: Readonly<Record<string, string | undefined>>;
  /** The peer's address; what a proxy says of it counts only where the operator trusts the proxy. */
  address: string;
  now: Date;
};

export type DoorAnswer = {
  status: number;
  headers: Readonly<Record<string, string | readonly string[]>>;
  body: string | Uint8Array;
};

export type DoorHandler = (request: DoorRequest) => Promise<DoorAnswer>;

/** How a door tells what it could not do: a page for people, which leads to `home`, or the protocol's own error for programs. */
export type ProblemAnswer = (problem: Problem, logref: string, home: string) => DoorAnswer;

/** `cors`: any origin may read the answer (never pages). `sameOriginPosts`: POST must come from our own pages. */
export type Door = {
  kind: 'door';
  path: string;
  cors: boolean;
  sameOriginPosts: boolean;
  operations: Partial<Record<'GET' | 'POST', DoorHandler>>;
  answerProblem: ProblemAnswer;
};

export type Route = Resource | Door;

export const resource = (path: string, operations: Resource['operations']): Resource => ({
  kind: 'resource',
  path,
  operations,
});

/** A page or its form: same-origin posts only, no CORS, errors for people. */
export const page = (path: string, operations: Door['operations']): Door => ({
  kind: 'door',
  path,
  cors: false,
  sameOriginPosts: true,
  operations,
  answerProblem: problemPage,
});

/** An endpoint of a protocol (the token endpoint): called by programs, authenticates by itself. */
export const endpoint = (
  path: string,
  operations: Door['operations'],
  protocol: { cors: boolean; answerProblem: ProblemAnswer },
): Door => ({ kind: 'door', path, sameOriginPosts: false, operations, ...protocol });
