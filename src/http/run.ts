/** An operation made ready to run: what came is judged by its schema, what it needs to know is put together. */
import type { FastifyRequest } from 'fastify';
import { invalid, Problem } from '#core/problem.ts';
import { parseBody } from './bodies/body.ts';
import { MEMBERS_MAX } from './bodies/json-body.ts';
import { propertiesOf } from './bodies/coerce.ts';
import { goesWithoutBody } from './bodies/optional.ts';
import { requireAccess, type Caller } from './caller.ts';
import { unmodifiedSince } from './conditional.ts';
import { DONE } from './pages/done.ts';
import { REFRESH } from './pages/refresh.ts';
import type { Answer, ApiRequest, Operation } from './operation.ts';
import { readQuery } from './query.ts';
import type { Method, Params } from './route.ts';
import { headersOf, pathOf, rawQueryOf, type Services } from './services.ts';
import { arraysOf, createValidator, objectsOf } from './bodies/validate.ts';

/** `given` is what a form says in place of the body and the headers of a program. */
export type Run = (request: FastifyRequest, caller: Caller, given?: Given) => Promise<Answer>;
type Given = { body: unknown; ifMatch: string | undefined; key: string | undefined };

const refuseEncoding = (encoding: string | undefined): void => {
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  const message = 'Send the body as it is, without a Content-Encoding';
  throw new Problem(415, { code: 'unsupported_media_type', message, field: 'Content-Encoding' });
};

/** Node makes one text of two such headers, and nobody would know it again. */
const refuseTwoKeys = ({ raw }: FastifyRequest): void => {
  if ((raw.headersDistinct['idempotency-key']?.length ?? 0) < 2) return;
  const message = 'Idempotency-Key is sent twice: name one key for the request';
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
};

/** What asks without having said so would not be told of in the reference. */
const undeclared = (): never => {
  throw new TypeError('The operation asks for the version that is changed, and does not say that it isConditional');
};

/** `method` is what is done, which the POST of a form hides. */
export const createRun = (services: Services, method: Method, operation: Operation): Run => {
  const { input, told } = operation;
  const arrays = input === undefined ? undefined : arraysOf(input);
  const objects = told === undefined ? undefined : objectsOf(told.item);
  const validate = input === undefined ? undefined : createValidator(input);
  const isBodyOptional = goesWithoutBody(method, operation);
  // An open body (events) has its own limits.
  const membersMax = input !== undefined && Object.keys(propertiesOf(input)).length > 0 ? MEMBERS_MAX : Infinity;
  /** What makes nothing has nothing to remember, and a key says nothing to it. */
  const keyOf = (key: string | undefined) => (operation.isRemembered ? key : undefined);
  return async (request, caller, given) => {
    const { principal } = caller;
    requireAccess(operation.access, principal, request);
    if (operation.takesKey) refuseTwoKeys(request);
    const headers = headersOf(request);
    const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
    const query = readQuery(rawQueryOf(request));
    if (caller.isBrowser) for (const own of [DONE, REFRESH]) query.delete(own);
    const asked: Omit<ApiRequest, 'body' | 'principal'> = {
      params: request.params as Params,
      query,
      headers,
      address: request.ip,
      now: services.clock.now(),
      unmodified: operation.isConditional
        ? unmodifiedSince(given === undefined ? headers : { 'if-match': given.ifMatch })
        : undeclared,
    };
    const handle = (body: unknown) => {
      const once = services.once({
        key: keyOf(given === undefined ? headers['idempotency-key'] : given.key),
        principal,
        method,
        path: pathOf(request),
        contentType: headers['content-type'] ?? '',
        bytes,
        now: asked.now,
      });
      return operation.handle({ ...asked, principal, body }, once);
    };
    await operation.admit?.({ ...asked, principal, body: undefined });
    if (arrays === undefined || validate === undefined) return handle(undefined);
    refuseEncoding(headers['content-encoding']);
    const sent = (): unknown =>
      isBodyOptional && bytes.length === 0
        ? {}
        : parseBody(bytes, headers['content-type'] ?? '', { arrays, objects, membersMax });
    const { value, faults, sound } = validate(given === undefined ? sent() : given.body);
    if (faults.length === 0) return handle(value);
    const further = (await operation.review?.({ ...asked, principal, body: sound })) ?? [];
    // A member that the schema refused is missing for the review: what it says of that one is not true.
    const refused = new Set(faults.map(({ field }) => field?.split('.', 1)[0]));
    throw invalid(...faults, ...further.filter(({ field }) => !refused.has(field?.split('.', 1)[0])));
  };
};
