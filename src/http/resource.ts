/** Serves an API request: format → version → caller → body → handler → format. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { createTarget, withActionsOf, type Target } from './target.ts';
import { storedCaller, identifyCaller, isBrowserRequest, storeCaller, type Caller } from './caller.ts';
import { preflightHeaders } from './cors.ts';
import { doneSentence } from './pages/done.ts';
import { answerForm } from './pages/form-answer.ts';
import { refreshOf } from './pages/refresh.ts';
import { searchedQuery } from './pages/search.ts';
import { negotiate } from './negotiate.ts';
import type { OperationResult, Operation } from './operation.ts';
import { optionsDocument } from './options.ts';
import { privateHeaders, sendDocument, viewOf } from './reply.ts';
import { sendStream } from './stream.ts';
import { METHODS, type Method, type Resource, type Route } from './route.ts';
import { createRun, type Run } from './run.ts';
import { addressOf, methodNotAllowed, pathOf, queryOf, refuseOtherMethods, type Services } from './services.ts';

type Exchange = { request: FastifyRequest; reply: FastifyReply; caller: Caller; target: Target };

async function send(services: Services, { request, reply, caller, target }: Exchange, result: OperationResult) {
  const { representation } = caller;
  if ('open' in result) return sendStream(reply, request, representation, result);
  if (result.status === 204) return reply.headers(privateHeaders).code(204).send();
  if (result.location !== undefined) reply.header('Location', result.location);
  const isSecret = 'isSecret' in result && result.isSecret;
  const naming = 'naming' in result && result.naming !== undefined ? result.naming : services.naming;
  const { format } = representation;
  const showsActions = format.showsActions === true && result.status !== 201;
  const document = showsActions
    ? withActionsOf(services, result.document, { request, caller, target })
    : result.document;
  const done = caller.isBrowser ? doneSentence(queryOf(request)) : undefined;
  const isPage = format.isPage === true;
  const charts = isPage && 'charts' in result ? await result.charts?.() : undefined;
  const advice = isPage && 'advice' in result ? await result.advice?.() : undefined;
  const refreshing = caller.isBrowser ? refreshOf(document, pathOf(request), queryOf(request)) : undefined;
  const { refresh, header } = refreshing ?? {};
  if (header !== undefined) reply.header('Refresh', header);
  const messages = { ...(done !== undefined && { done }), ...(advice && { advice }) };
  const viewParts = { ...messages, ...(charts && { charts }), ...(refresh && { refresh }) };
  const view = isPage ? viewOf(services, caller.visitor, document, viewParts) : undefined;
  const page = view !== undefined && 'page' in result ? result.page?.(view) : undefined;
  const outgoing = { status: result.status, document, naming, isSecret, view };
  return sendDocument(reply, request, representation, page === undefined ? outgoing : { ...outgoing, page });
}

/** Mounts a resource. `routes` is the whole table, for the action routes of the resource. */
export function mountResource(
  app: FastifyInstance,
  services: Services,
  route: Resource,
  routes: readonly Route[],
): void {
  const { operations, isDocumentation, path } = route;
  const methods = METHODS.filter((method) => operations[method] !== undefined);
  const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  const config = { cors: true };
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
      config,
      bodyLimit: operation?.bodyLimitBytes ?? services.settings.bodyLimitBytes,
      onRequest: async (request, reply) => {
        if (operation === undefined && !isBrowserRequest(request, negotiate(request.headers.accept))) {
          throw methodNotAllowed(request, allow);
        }
        const { access = 'token', isStream = false, admit } = operation ?? {};
        const demand = { access, admits: admit !== undefined, isDocumentation, isStream };
        storeCaller(request, await identifyCaller(services, request, reply, demand));
      },
      handler: async (request, reply) => {
        const caller = storedCaller(request);
        if (caller === undefined) throw new TypeError('A request without a caller reached the handler');
        const { visitor } = caller;
        if (method === 'POST' && visitor !== null) {
          return answerForm(services, { request, reply, caller, visitor, route, runs, allow, target });
        }
        if (run === undefined) throw methodNotAllowed(request, allow);
        const searched = caller.isBrowser ? searchedQuery(queryOf(request)) : undefined;
        if (searched !== undefined) {
          const address = searched.size === 0 ? pathOf(request) : `${pathOf(request)}?${searched.toString()}`;
          return reply.headers({ 'Cache-Control': 'no-store' }).redirect(address, 303);
        }
        return send(services, { request, reply, caller, target }, await run(request, caller));
      },
    });
  for (const method of methods) mount(method, operations[method], runs[method]);
  if (operations.GET !== undefined) mount('HEAD', operations.GET, runs.GET);
  // Forms of a page send every method as a POST.
  const isPostForForms = operations.POST === undefined && methods.some((method) => method !== 'GET');
  if (isPostForForms) mount('POST', undefined, undefined);

  app.route({
    method: 'OPTIONS',
    url: path,
    config,
    handler: async (request, reply) => {
      reply.header('Allow', allow);
      if (request.headers['access-control-request-method'] !== undefined) {
        return reply.code(204).headers(preflightHeaders(allow, services.settings.versionHeader)).send();
      }
      const document = optionsDocument(route, addressOf(request, services), allow);
      const representation = negotiate(request.headers.accept);
      const caller = { representation, principal: null, visitor: null, isBrowser: false };
      const withoutActions: Target = { ...target, withActions: (unchanged) => unchanged };
      return send(services, { request, reply, caller, target: withoutActions }, { status: 200, document });
    },
  });
  refuseOtherMethods(app, { path, allow, alsoServed: isPostForForms ? ['POST'] : [], cors: true });
}
