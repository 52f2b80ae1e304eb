/**
 * What stands behind an address. A **resource** answers with Documents and knows no format; a **door** (a page, a form,
 * an OAuth endpoint) reads the raw request and writes the raw answer. HEAD, OPTIONS and 405 are made by the machinery.
 */
import type { Problem } from '#core/problem.ts';
import type { Operation } from './operation.ts';
import { problemPage } from './pages/problem-page.ts';

export type Params = Readonly<Record<string, string>>;

export const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;
export type Method = (typeof METHODS)[number];

export type Resource = {
  kind: 'resource';
  path: string;
  operations: Partial<Record<Method, Operation>>;
  /** Explains the API: wants neither the version header nor a token. */
  isDocumentation: boolean;
};

export type RawRequest = {
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

export type RawResponse = {
  status: number;
  headers: Readonly<Record<string, string | readonly string[]>>;
  body: string | Uint8Array;
};

export type RawHandler = (request: RawRequest) => Promise<RawResponse>;

/** How a door tells what it could not do: a page for people, which leads to `home`, or the protocol's own error for programs. */
export type ProblemAnswer = (problem: Problem, logref: string, home: string) => RawResponse;

/** `cors`: any origin may read the answer (never pages). `sameOriginPosts`: POST must come from our own pages. */
export type RawEndpoint = {
  kind: 'raw';
  path: string;
  cors: boolean;
  sameOriginPosts: boolean;
  operations: Partial<Record<'GET' | 'POST', RawHandler>>;
  answerProblem: ProblemAnswer;
};

export type Route = Resource | RawEndpoint;

export const resource = (
  path: string,
  operations: Resource['operations'],
  { isDocumentation = false }: { isDocumentation?: boolean } = {},
): Resource => ({ kind: 'resource', path, operations, isDocumentation });

/** A page or its form: same-origin posts only, no CORS, errors for people. */
export const page = (path: string, operations: RawEndpoint['operations']): RawEndpoint => ({
  kind: 'raw',
  path,
  cors: false,
  sameOriginPosts: true,
  operations,
  answerProblem: problemPage,
});

/** An endpoint of a protocol (the token endpoint): called by programs, authenticates by itself. */
export const endpoint = (
  path: string,
  operations: RawEndpoint['operations'],
  protocol: { cors: boolean; answerProblem: ProblemAnswer },
): RawEndpoint => ({ kind: 'raw', path, sameOriginPosts: false, operations, ...protocol });
