/** Serves an API request: format → version → caller → query and body → handler → format. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { invalid } from '#core/problem.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { actionRoutesOf, createActions, targetOf, type Target, withActionsOf } from './actions.ts';
import { parseBody, propertiesOf, refuseEncoding } from './bodies/body.ts';
import { MEMBERS_MAX } from './bodies/json-body.ts';
import { arraysOf, createValidator, isBodyOptional, objectsOf } from './bodies/validate.ts';
import { identifyCaller, isBrowserRequest, requireAccess, storedCaller, type Caller } from './caller.ts';
import {
  designedPage,
  mountOptions,
  privateHeaders,
  sendDocument,
  sendStream,
  unmodifiedSince,
  viewOf,
  withheldSecrets,
} from './reply.ts';
import { negotiate } from '#hypermedia/render.ts';
import {
  mayBeMinimal,
  type ApiRequest,
  type Operation,
  type OperationResult,
  DONE,
  doneSentence,
} from './operation.ts';
import { answerForm, answerSignedOut } from './pages/form-answer.ts';
import { shownAgain } from './pages/form-post.ts';
import { METHODS, type Method, type Params, type Resource, type Route } from './route.ts';
import type { Services } from './services.ts';
import {
  headersOf,
  pathAndQueryOf,
  queryOf,
  rawQueryOf,
  timesSent,
  methodNotAllowed,
  pathOf,
  type Addresses,
} from './requests.ts';
import { SEARCH, withWildcards } from '#hypermedia/html/search-form.ts';

/** Returns whether all percent sequences of a query or form are valid UTF-8. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

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
type FormInput = { body: unknown; ifMatch: string | undefined; key: string | undefined; isPreview: boolean };

/** Throws a 400 for a repeated header, because Node joins the values. */
function refuseTwoKeys({ raw }: FastifyRequest): void {
  if (timesSent(raw, 'idempotency-key') < 2) return;
  const message = 'Idempotency-Key is sent twice: send one key per request';
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
}

/** An undeclared check of If-Match would be missing in the reference. */
function undeclared(): never {
  throw new TypeError('The operation checks If-Match but does not declare isConditional');
}

/** Returns the function that runs an operation. `method` is that of the operation, which a form sends as a POST. */
function createRun(services: Services, method: Method, operation: Operation): Run {
  const { input, documentedInput } = operation;
  const validate = input === undefined ? undefined : createValidator(input);
  const mayLackBody = isBodyOptional(method, operation);
  // Bodies whose schema lists no members (events) have limits of their own.
  const membersMax = input !== undefined && Object.keys(propertiesOf(input)).length > 0 ? MEMBERS_MAX : Infinity;
  const shape = input && {
    arrays: arraysOf(input),
    objects: documentedInput && objectsOf(documentedInput.item),
    membersMax,
    isPatch: method === 'PATCH',
    linesMax: documentedInput?.areIndependent === true ? documentedInput.itemsMax : undefined,
  };
  return async (request, caller, form) => {
    const { principal } = caller;
    if (operation.takesKey) refuseTwoKeys(request);
    const headers = headersOf(request);
    const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
    const query = readQuery(rawQueryOf(request));
    if (caller.isBrowser) query.delete(DONE);
    const key = form === undefined ? headers['idempotency-key'] : form.key;
    const base: Omit<ApiRequest, 'body' | 'principal'> = {
      params: request.params as Params,
      query,
      headers,
      key,
      address: request.ip,
      now: services.clock.now(),
      unmodified: operation.isConditional
        ? unmodifiedSince(form === undefined ? headers : { 'if-match': form.ifMatch })
        : undeclared,
    };
    const handle = async (body: unknown): Promise<OperationResult> => {
      if (form?.isPreview === true) {
        if (operation.preview === undefined)
          throw invalid({ code: 'malformed_request', message: 'This form has no preview: reload the page' });
        return { status: 204, preview: await operation.preview.handle({ ...base, principal, body }) };
      }
      const executionOf = () =>
        services.idempotency({
          key,
          principal,
          method,
          path: pathOf(request),
          contentType: headers['content-type'] ?? '',
          bytes,
          now: base.now,
        });
      return operation.handle({ ...base, principal, body }, executionOf);
    };
    await operation.admit?.({ ...base, principal, body: undefined });
    requireAccess(operation, principal, request);
    if (shape === undefined || validate === undefined) return handle(undefined);
    refuseEncoding(headers['content-encoding']);
    const readBody = (): unknown =>
      mayLackBody && bytes.length === 0 ? {} : parseBody(bytes, headers['content-type'] ?? '', shape);
    const { value, faults, sound } = validate(form === undefined ? readBody() : form.body);
    if (faults.length === 0) return handle(value);
    const further = (await operation.review?.({ ...base, principal, body: sound })) ?? [];
    // Members that the schema rejected are missing in `sound`, so faults of the review about them are not reliable.
    const rejected = new Set(faults.map(({ field }) => field?.split('.', 1)[0]));
    throw invalid(...faults, ...further.filter(({ field }) => !rejected.has(field?.split('.', 1)[0])));
  };
}

function createTarget(services: Services, route: Resource, routes: readonly Route[]): Target {
  const parent = targetOf(route, routes);
  const resource = parent ?? route;
  const { GET } = resource.operations;
  return {
    isActionRoute: parent !== undefined,
    read: GET === undefined ? undefined : createRun(services, 'GET', GET),
    withActions: createActions(resource, actionRoutesOf(resource, routes)),
  };
}

/** Returns the page of an operation or of the dashboard; undefined if the document has its generic page. */
async function pageOf(
  services: Services,
  result: Extract<OperationResult, { document: Document }>,
  shown: { document: Document; naming: Naming; view: View },
): Promise<string | undefined> {
  if ('page' in result) return result.page?.(shown.view);
  return result.status === 200 && shown.view.session !== undefined ? designedPage(services, shown) : undefined;
}

type Exchange = {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  target: Target;
  operation: Operation | undefined;
};

const MINIMAL = /(?:^|[,;\s])return\s*=\s*"?minimal"?(?=[,;\s]|$)/i;

/** Returns whether the client asks for a response without a representation of what it changes (RFC 7240 §4.2), and may get it. */
function prefersMinimal({ request, caller, operation }: Exchange): boolean {
  const { method, headers } = request;
  if (operation === undefined || caller.isBrowser || !mayBeMinimal(method, operation)) return false;
  return MINIMAL.test(String(headers['prefer'] ?? ''));
}

async function send(services: Services, exchange: Exchange, result: OperationResult) {
  const { request, reply, caller, target } = exchange;
  const { representation } = caller;
  if ('open' in result) return sendStream(reply, request, representation, result);
  if (result.location !== undefined) reply.header('Location', result.location);
  if (result.status === 204) return reply.headers(privateHeaders).code(204).send();
  // A secret that is shown once would be lost.
  if (result.isSecret !== true && prefersMinimal(exchange)) {
    reply.headers({ ...privateHeaders, 'Preference-Applied': 'return=minimal' });
    return reply.code(result.status === 200 ? 204 : result.status).send();
  }
  const isSecret = 'isSecret' in result && result.isSecret;
  const naming = 'naming' in result && result.naming !== undefined ? result.naming : services.naming;
  const { format } = representation;
  const showsActions = format.showsActions === true && result.status !== 201;
  const acted = showsActions ? withActionsOf(services, result.document, { request, caller, target }) : result.document;
  const document = withheldSecrets(acted, caller.visitor?.confirmAt(pathAndQueryOf(request)));
  const done = caller.isBrowser ? doneSentence(queryOf(request)) : undefined;
  const isPage = format.isPage === true;
  const beside = isPage && 'beside' in result ? await result.beside?.() : undefined;
  const advice = isPage && 'advice' in result ? await result.advice?.() : undefined;
  const kept = request.method === 'GET' ? caller.visitor?.takeKept(pathOf(request)) : undefined;
  if (kept !== undefined) reply.header('Set-Cookie', kept.cookie);
  const refused = kept && shownAgain(kept.form, document);
  const viewParts = {
    ...beside,
    ...(refused && { refused }),
    ...(done !== undefined && { done }),
    ...(advice && { advice }),
  };
  const view = isPage ? viewOf(services, caller.visitor, document, viewParts) : undefined;
  const page = view && (await pageOf(services, result, { document, naming, view }));
  const mayCompress = !caller.visitor;
  const outgoing = { status: result.status, document, naming, isSecret, view, page, mayCompress };
  return sendDocument(reply, request, representation, outgoing);
}

/** Mounts a resource. `routes` is the whole table, for the action routes of the resource. */
export function mountResource(
  app: FastifyInstance,
  services: Services,
  route: Resource,
  { routes, addresses }: { routes: readonly Route[]; addresses: Addresses },
): void {
  const { operations, isDocumentation, path } = route;
  const methods = METHODS.filter((method) => operations[method] !== undefined);
  const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  const target = createTarget(services, route, routes);
  const runs: Partial<Record<Method, Run>> = {};
  for (const method of methods) {
    const operation = operations[method];
    if (operation !== undefined) runs[method] = createRun(services, method, operation);
  }

  const mount = (method: Method | 'HEAD', operation: Operation | undefined, run: Run | undefined) =>
    app.route({
      method,
      url: path,
      config: { cors: true },
      bodyLimit: operation?.bodyLimitBytes ?? services.settings.bodyLimitBytes,
      onRequest: async (request, reply) => {
        if (operation === undefined && !isBrowserRequest(request, negotiate(request.headers.accept))) {
          throw methodNotAllowed(request, allow);
        }
        const { access = 'token', scopes = 'any', scopesAt, isStream = false, admit } = operation ?? {};
        const requirements = { access, scopes, scopesAt, admits: admit !== undefined, isDocumentation, isStream };
        await identifyCaller(services, request, reply, requirements);
      },
      handler: async (request, reply) => {
        const caller = storedCaller(request);
        if (caller === undefined) throw new TypeError('A request without a caller reached the handler');
        const { visitor } = caller;
        if (method === 'POST' && visitor !== null) {
          return answerForm(services, { request, reply, caller, visitor, route, runs, allow, target });
        }
        if (method === 'POST' && caller.isBrowser) return answerSignedOut(services, { request, reply, route, target });
        if (run === undefined) throw methodNotAllowed(request, allow);
        const searched = caller.isBrowser ? searchedQuery(queryOf(request)) : undefined;
        if (searched !== undefined) {
          const address = searched.size === 0 ? pathOf(request) : `${pathOf(request)}?${searched.toString()}`;
          return reply.headers({ 'Cache-Control': 'no-store' }).redirect(address, 303);
        }
        return send(services, { request, reply, caller, target, operation }, await run(request, caller));
      },
    });
  for (const method of methods) mount(method, operations[method], runs[method]);
  if (operations.GET !== undefined) mount('HEAD', operations.GET, runs.GET);
  // Forms of a page send every method as a POST.
  const isPostForForms = operations.POST === undefined && methods.some((method) => method !== 'GET');
  if (isPostForForms) mount('POST', undefined, undefined);
  mountOptions(app, services, route, { allow, cors: true });
  addresses.add({ path, isResource: true, allow, alsoServed: isPostForForms ? ['POST'] : [], cors: true });
}

/**
 * Returns the query that a program would send, to which the browser is redirected; undefined if it was not sent by a search form. A
 * browser sends empty fields, which a filter reads as "not set". Dates stay as they are: lists read them in the zone of the store.
 */
export function searchedQuery(query: URLSearchParams): URLSearchParams | undefined {
  if (!query.has(SEARCH)) return undefined;
  const parameters = [...query].filter(([name, value]) => name !== SEARCH && value.trim() !== '');
  return new URLSearchParams(parameters.map(([name, value]) => withWildcards(name, value.trim())));
}
