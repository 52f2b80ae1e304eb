/**
 * Routes. A **resource** returns Documents and knows no format; a **raw endpoint** (a page, a form, an OAuth endpoint)
 * reads the raw request and writes the raw response. HEAD, OPTIONS and 405 are generated.
 */
import type { Readable } from 'node:stream';
import { parseId } from '#core/ids.ts';
import { notFound, type Problem } from '#core/problem.ts';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Operation } from './operation.ts';
import { htmlAnswer } from './answers.ts';
import { titleOf } from './errors.ts';

/**
 * Returns a Problem as a page, for a person whose form or link was rejected. `logref` is shown for server errors, to find the line in
 * the operator's log. `home` is the path of the link below.
 */
function problemPage(problem: Problem, logref: string, home: string): RawResponse {
  const title = titleOf(problem.status);
  const main = html`<div class="card">
    <h1>${title}</h1>
    ${problem.faults.map(({ message }) => html`<p class="alert" role="alert">${message}.</p>`)}
    ${problem.status >= 500 && html`<p class="soft">Reference: <code>${logref}</code></p>`}
    <p><a href="${home}">Your account</a></p>
  </div>`;
  return htmlAnswer(problem.status, shell({ title, main }), { headers: problem.headers });
}

export type Params = Readonly<Record<string, string>>;

/** Returns the id of this name in the address. Throws a 404 for `what` if the text cannot be one. */
export function idIn({ params }: { params: Params }, name: string, what: string): number {
  const id = parseId(params[name] ?? '');
  if (id === undefined) throw notFound(what);
  return id;
}

export const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;
export type Method = (typeof METHODS)[number];

export type Resource = {
  kind: 'resource';
  path: string;
  operations: Partial<Record<Method, Operation>>;
  /** Documentation: requires neither the version header nor a token. */
  isDocumentation: boolean;
};

export type RawRequest = {
  method: string;
  /** The requested path, without the query. */
  path: string;
  params: Params;
  /** The query as sent, so that repeated parameters can be detected. */
  query: URLSearchParams;
  /** The query as text, without `?`, to distinguish invalid UTF-8 from a sent U+FFFD. */
  rawQuery: string;
  /** The form body; empty without one, or for another content type. */
  form: URLSearchParams;
  /** The raw body. */
  bytes: Uint8Array;
  contentType: string;
  headers: Readonly<Record<string, string | undefined>>;
  cookies: Readonly<Record<string, string | undefined>>;
  /** The peer's address; `X-Forwarded-For` counts only behind a trusted proxy. */
  address: string;
  now: Date;
};

export type RawResponse = {
  status: number;
  headers: Readonly<Record<string, string | readonly string[]>>;
  /** A stream has no length. */
  body: string | Uint8Array | Readable;
};

export type RawHandler = (request: RawRequest) => Promise<RawResponse>;

/**
 * Sends a request of the same caller to a resource of this server, as `http/raw-endpoint.ts` describes. Throws a 400 if `href`, an absolute
 * address or a path, is that of no resource.
 */
export type Dispatch = (request: {
  method: Method;
  href: string;
  /** Without it the default format, and no stream. */
  accept?: string;
  /** The value of `Idempotency-Key`. */
  key?: string | undefined;
  /** JSON. */
  body?: string;
}) => Promise<{ status: number; text: string }>;

/** A handler that may send such requests. */
export type DispatchingHandler = (request: RawRequest, dispatch: Dispatch) => Promise<RawResponse>;

/** Renders an error of a raw endpoint: a page for people with a link to `home`, or the error format of the protocol. */
export type ProblemAnswer = (problem: Problem, logref: string, home: string) => RawResponse;

/**
 * `cors`: any origin may read the response (never for pages). `sameOriginPosts`: a POST must come from our own pages. `needsToken`: the
 * endpoint is for the callers of the API, with their token and rate limit; others authenticate by themselves.
 */
export type RawEndpoint = {
  kind: 'raw';
  path: string;
  cors: boolean;
  sameOriginPosts: boolean;
  needsToken?: true;
  operations: Partial<Record<'GET' | 'POST' | 'PUT' | 'DELETE', DispatchingHandler>>;
  answerProblem: ProblemAnswer;
};

export type Route = Resource | RawEndpoint;

export function resource(
  path: string,
  operations: Resource['operations'],
  { isDocumentation = false }: { isDocumentation?: boolean } = {},
): Resource {
  return { kind: 'resource', path, operations, isDocumentation };
}

/** Declares a page or its form: same-origin posts only, no CORS, errors as pages. */
export function page(path: string, operations: RawEndpoint['operations']): RawEndpoint {
  return {
    kind: 'raw',
    path,
    cors: false,
    sameOriginPosts: true,
    operations,
    answerProblem: problemPage,
  };
}

/** Declares a protocol endpoint, such as the token endpoint, which programs call. */
export function endpoint(
  path: string,
  operations: RawEndpoint['operations'],
  protocol: { cors: boolean; answerProblem: ProblemAnswer; needsToken?: true },
): RawEndpoint {
  return { kind: 'raw', path, sameOriginPosts: false, operations, ...protocol };
}
