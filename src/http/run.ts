/**
 * Runs an operation: parses and validates the request, builds the `ApiRequest` and calls the handler.
 *
 * Parses the query of an API request, or throws a 400 that names the malformed parameter.
 */
import { invalid, Problem } from '#core/problem.ts';
import { isDecodable } from './bodies/utf8.ts';
import type { FastifyRequest } from 'fastify';
import { parseBody, propertiesOf } from './bodies/body.ts';
import { MEMBERS_MAX } from './bodies/json-body.ts';
import { isBodyOptional } from './bodies/optional.ts';
import { requireAccess, type Caller } from './caller.ts';
import { unmodifiedSince } from './reply.ts';
import { DONE } from './pages/done.ts';
import { REFRESH } from './pages/refresh.ts';
import type { OperationResult, ApiRequest, Operation } from './operation.ts';
import type { Method, Params } from './route.ts';
import { headersOf, pathOf, rawQueryOf, type Services } from './services.ts';
import { arraysOf, createValidator, objectsOf } from './bodies/validate.ts';

/**
 * Parses a query without its `?`; repeated parameters stay repeated. Invalid UTF-8 would become U+FFFD (WHATWG URL,
 * form parser) and silently find nothing.
 */
export function readQuery(raw: string): URLSearchParams {
  const broken = raw.split('&').find((pair) => !isDecodable(pair) || /[^\x21-\x7e]/.test(pair));
  if (broken === undefined) return new URLSearchParams(raw);
  const [name = ''] = new URLSearchParams(broken).keys();
  const message = `${name || 'The query'} is not percent-encoded UTF-8: encode every other octet, as %C3%A9`;
  throw invalid({ code: 'malformed_request', message, ...(name !== '' && { field: name }) });
}

/** `form` replaces the body and the headers of a program. */
export type Run = (request: FastifyRequest, caller: Caller, form?: FormInput) => Promise<OperationResult>;
type FormInput = { body: unknown; ifMatch: string | undefined; key: string | undefined };

function refuseEncoding(encoding: string | undefined): void {
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  const message = 'Send the body as it is, without a Content-Encoding';
  throw new Problem(415, { code: 'unsupported_media_type', message, field: 'Content-Encoding' });
}

/** Throws a 400 for a repeated header, because Node joins the values. */
function refuseTwoKeys({ raw }: FastifyRequest): void {
  if ((raw.headersDistinct['idempotency-key']?.length ?? 0) < 2) return;
  const message = 'Idempotency-Key is sent twice: send one key per request';
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
}

/** An undeclared check of If-Match would be missing in the reference. */
function undeclared(): never {
  throw new TypeError('The operation checks If-Match but does not declare isConditional');
}

/** Returns the function that runs an operation. `method` is that of the operation, which a form sends as a POST. */
export function createRun(services: Services, method: Method, operation: Operation): Run {
  const { input, documentedInput } = operation;
  const arrays = input === undefined ? undefined : arraysOf(input);
  const objects = documentedInput === undefined ? undefined : objectsOf(documentedInput.item);
  const validate = input === undefined ? undefined : createValidator(input);
  const mayLackBody = isBodyOptional(method, operation);
  // Bodies whose schema lists no members (events) have limits of their own.
  const membersMax = input !== undefined && Object.keys(propertiesOf(input)).length > 0 ? MEMBERS_MAX : Infinity;
  /** A key has no effect on operations that store no response. */
  const keyOf = (key: string | undefined) => (operation.storesResponse ? key : undefined);
  return async (request, caller, form) => {
    const { principal } = caller;
    if (operation.takesKey) refuseTwoKeys(request);
    const headers = headersOf(request);
    const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
    const query = readQuery(rawQueryOf(request));
    if (caller.isBrowser) for (const parameter of [DONE, REFRESH]) query.delete(parameter);
    const base: Omit<ApiRequest, 'body' | 'principal'> = {
      params: request.params as Params,
      query,
      headers,
      address: request.ip,
      now: services.clock.now(),
      unmodified: operation.isConditional
        ? unmodifiedSince(form === undefined ? headers : { 'if-match': form.ifMatch })
        : undeclared,
    };
    const handle = (body: unknown) => {
      const execution = services.idempotency({
        key: keyOf(form === undefined ? headers['idempotency-key'] : form.key),
        principal,
        method,
        path: pathOf(request),
        contentType: headers['content-type'] ?? '',
        bytes,
        now: base.now,
      });
      return operation.handle({ ...base, principal, body }, execution);
    };
    await operation.admit?.({ ...base, principal, body: undefined });
    requireAccess(operation.access, principal, request);
    if (arrays === undefined || validate === undefined) return handle(undefined);
    refuseEncoding(headers['content-encoding']);
    const readBody = (): unknown =>
      mayLackBody && bytes.length === 0
        ? {}
        : parseBody(bytes, headers['content-type'] ?? '', { arrays, objects, membersMax });
    const { value, faults, sound } = validate(form === undefined ? readBody() : form.body);
    if (faults.length === 0) return handle(value);
    const further = (await operation.review?.({ ...base, principal, body: sound })) ?? [];
    // Members that the schema rejected are missing in `sound`, so faults of the review about them are not reliable.
    const rejected = new Set(faults.map(({ field }) => field?.split('.', 1)[0]));
    throw invalid(...faults, ...further.filter(({ field }) => !rejected.has(field?.split('.', 1)[0])));
  };
}
