/** A Problem as the one error document, in whatever format the caller reads. */
import { randomBytes } from 'node:crypto';
import { number, text, type Document } from '#hypermedia/document.ts';
import { Problem, type Fault } from '#core/problem.ts';

/** `id-…`: stands in the answer and in the log line, so that one finds the other. */
export const newLogref = (): string => `id-${randomBytes(9).toString('base64url')}`;

const oauthMembers = (problem: Problem) => {
  if (problem.status !== 401 && problem.status !== 403) return [];
  const [first] = problem.faults;
  return first === undefined ? [] : [text('error', first.code), text('error_description', first.message)];
};

/** A heading for people. */
export const titleOf = (status: number): string => {
  if (status === 404) return 'There is nothing here';
  if (status === 429) return 'Too many tries';
  return status >= 500 ? 'This did not work' : 'This request cannot be used';
};

export const errorDocument = (problem: Problem, logref: string): Document => ({
  name: 'errors',
  title: titleOf(problem.status),
  links: [],
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
});

type Thrown = Error & { statusCode?: number; code?: string };

/** In words of ours: the framework's own repeat the address, and whatever somebody has put into it. */
const clientErrors: Readonly<Record<number, Fault>> = {
  400: {
    code: 'malformed_request',
    message: 'The request is not HTTP that can be read: its address, headers or length',
  },
  413: { code: 'too_large', message: 'The body is too large' },
  414: { code: 'uri_too_long', message: 'The address is too long' },
  415: {
    code: 'unsupported_media_type',
    message: 'The Content-Type is not one that can be read',
    field: 'Content-Type',
  },
  431: { code: 'headers_too_large', message: 'The headers are too large' },
};

/**
 * Whatever was thrown, as a Problem: ours as it is, the framework's 4xx under our codes, a database that is away as a
 * 503, and everything else as a 500 that tells the caller nothing but the logref.
 */
export const toProblem = (thrown: unknown, whyUnavailable: (error: unknown) => string | undefined): Problem => {
  if (thrown instanceof Problem) return thrown;
  const error = thrown as Thrown;
  const fault = clientErrors[error.statusCode ?? 0];
  // First, because a caller who hangs up in the middle of a body looks like a database that does.
  if (fault !== undefined && error.statusCode !== undefined) return new Problem(error.statusCode, fault);
  const message = whyUnavailable(thrown);
  if (message !== undefined) {
    return new Problem(503, { code: 'unavailable', message }, { headers: { 'Retry-After': '5' }, cause: thrown });
  }
  return new Problem(
    500,
    { code: 'internal', message: 'Something went wrong on our side; quote the logref' },
    { cause: thrown },
  );
};
