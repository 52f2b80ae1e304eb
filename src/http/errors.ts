/** A Problem as the one error document, in whatever format the caller reads. */
import { randomBytes } from 'node:crypto';
import { number, text, type Document } from '#hypermedia/document.ts';
import { Problem } from '#kernel/problem.ts';

/** `id-…`: stands in the answer and in the log line, so that one finds the other. */
export const newLogref = (): string => `id-${randomBytes(9).toString('base64url')}`;

const oauthMembers = (problem: Problem) => {
  if (problem.status !== 401 && problem.status !== 403) return [];
  const [first] = problem.faults;
  return first === undefined ? [] : [text('error', first.code), text('error_description', first.message)];
};

export const errorDocument = (problem: Problem, logref: string): Document => ({
  name: 'errors',
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

const clientErrors: Readonly<Record<number, string>> = {
  400: 'malformed_request',
  413: 'too_large',
  414: 'uri_too_long',
  415: 'unsupported_media_type',
  431: 'headers_too_large',
};

/**
 * Whatever was thrown, as a Problem: ours as it is, the framework's 4xx under our codes, a database that is away as a
 * 503, and everything else as a 500 that tells the caller nothing but the logref.
 */
export const toProblem = (thrown: unknown, isUnavailable: (error: unknown) => boolean): Problem => {
  if (thrown instanceof Problem) return thrown;
  if (isUnavailable(thrown)) {
    return new Problem(
      503,
      { code: 'unavailable', message: 'The service cannot reach its database; try again shortly' },
      { headers: { 'Retry-After': '5' }, cause: thrown },
    );
  }
  const error = thrown as Thrown;
  const code = clientErrors[error.statusCode ?? 0];
  if (code !== undefined && error.statusCode !== undefined)
    return new Problem(error.statusCode, { code, message: error.message });
  return new Problem(
    500,
    { code: 'internal', message: 'Something went wrong on our side; quote the logref' },
    { cause: thrown },
  );
};
