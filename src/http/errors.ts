/** Converts errors to Problems, and Problems to the error document that every format renders. */
import { randomBytes } from 'node:crypto';
import { number, text, type Document, type Search } from '#hypermedia/document.ts';
import { Problem, type Fault, temporary } from '#core/problem.ts';

/** Returns an identifier (`id-…`) that is in both the response and the log line. */
export function newLogref(): string {
  return `id-${randomBytes(9).toString('base64url')}`;
}

function oauthMembers(problem: Problem) {
  if (problem.status !== 401 && problem.status !== 403) return [];
  const [first] = problem.faults;
  if (first === undefined) return [];
  return [text('error', first.code), text('error_description', first.description ?? first.message)];
}

const TITLES: Readonly<Record<number, string>> = {
  403: 'Not permitted',
  404: 'Not found',
  410: 'No longer there',
  429: 'Too many requests',
  503: 'Not available now',
};

/** Returns the heading of an error page. */
export function titleOf(status: number): string {
  return TITLES[status] ?? (status >= 500 ? 'Internal error' : 'Invalid request');
}

/** A search that took too long, with the query of the same search of a shorter time and the form that shows it. */
export class TooWide extends Problem {
  readonly narrower: { query: URLSearchParams; title: string; form: Search };

  constructor({ status, faults, headers, cause }: Problem, narrower: TooWide['narrower']) {
    super(status, faults, { headers, cause });
    this.narrower = narrower;
  }
}

/** Returns the link to a narrower search and its form, if the error offers one; `address` is that of the request, without its query. */
function offerOf(problem: Problem, address: string): Pick<Document, 'links' | 'search'> {
  if (!(problem instanceof TooWide)) return { links: [] };
  const { query, title, form } = problem.narrower;
  return { links: [{ rel: 'related', href: `${address}?${query.toString()}`, title }], search: form };
}

/** `address`: that of the request, without its query. */
export function errorDocument(problem: Problem, logref: string, address = ''): Document {
  return {
    ...offerOf(problem, address),
    name: 'errors',
    title: titleOf(problem.status),
    properties: [number('total', problem.faults.length), ...oauthMembers(problem)],
    embedded: [
      {
        rel: 'errors',
        documents: problem.faults.map((fault) => ({
          name: 'error',
          links: [],
          embedded: [],
          properties: [
            text('logref', logref),
            text('code', fault.code),
            text('message', fault.message),
            ...(fault.field === undefined ? [] : [text('field', fault.field)]),
          ],
        })),
      },
    ],
  };
}

type Thrown = Error & { statusCode?: number; code?: string };

/** Fixed messages: those of the framework repeat the address and any secret in it. */
const clientErrors: Readonly<Record<number, Fault>> = {
  400: {
    code: 'malformed_request',
    message: 'The request is malformed HTTP: its address, headers or length',
  },
  408: {
    code: 'request_timeout',
    message: 'The request did not arrive whole in time: send it faster, or less at once',
  },
  413: { code: 'too_large', message: 'The body is too large' },
  414: { code: 'uri_too_long', message: 'The address is too long' },
  415: {
    code: 'unsupported_media_type',
    message: 'The Content-Type is not supported',
    field: 'Content-Type',
  },
  431: { code: 'headers_too_large', message: 'The headers are too large' },
};

/**
 * Converts a thrown value to a Problem: Problems stay, 4xx errors of the framework get our codes, an unavailable
 * database becomes a 503, everything else a 500 that contains only the logref.
 */
export function toProblem(thrown: unknown, whyUnavailable: (error: unknown) => string | undefined): Problem {
  if (thrown instanceof Problem) return thrown;
  const error = thrown as Thrown;
  const fault = clientErrors[error.statusCode ?? 0];
  // This check is first, because a client that disconnects in its body causes the same error as a disconnected database.
  if (fault !== undefined && error.statusCode !== undefined) return new Problem(error.statusCode, fault);
  const message = whyUnavailable(thrown);
  if (message !== undefined) return temporary(503, { code: 'unavailable', message }, 5, { cause: thrown });
  return new Problem(
    500,
    { code: 'internal', message: 'Something went wrong on our side; quote the logref' },
    { cause: thrown },
  );
}
