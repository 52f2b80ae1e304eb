/** The way of an API request: format → version → caller → body → handler → format. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { createActions, type WithActions } from './actions.ts';
import { callerIn, callerOf, isBrowsing, keepCaller, type Caller } from './caller.ts';
import { preflightHeaders } from './cors.ts';
import { doneSentence } from './pages/done.ts';
import { answerForm } from './pages/form-answer.ts';
import { negotiate } from './negotiate.ts';
import type { Answer, Operation } from './operation.ts';
import { optionsDocument } from './options.ts';
import { privateHeaders, sendDocument, viewOf } from './reply.ts';
import { METHODS, type Method, type Resource } from './route.ts';
import { createRun, type Run } from './run.ts';
import { addressOf, methodNotAllowed, queryOf, refuseOtherMethods, type Services } from './services.ts';

type Way = { request: FastifyRequest; reply: FastifyReply; caller: Caller; withActions: WithActions };

const send = async (services: Services, { request, reply, caller, withActions }: Way, answer: Answer) => {
  const { representation } = caller;
  if (answer.status === 204) return reply.headers(privateHeaders).code(204).send();
  if (answer.status === 201) reply.header('Location', answer.location);
  const isSecret = 'isSecret' in answer && answer.isSecret;
  const naming = 'naming' in answer && answer.naming !== undefined ? answer.naming : services.naming;
  const { format } = representation;
  const showsActions = format.showsActions === true && answer.status !== 201;
  const document = showsActions ? withActions(answer.document, caller, addressOf(request, services)) : answer.document;
  const done = caller.isBrowser ? doneSentence(queryOf(request)) : undefined;
  const charts = format.isPage === true && 'charts' in answer ? await answer.charts?.() : undefined;
  const view =
    format.isPage === true
      ? viewOf(services, caller.visitor, { ...(done !== undefined && { done }), ...(charts && { charts }) })
      : undefined;
  const page = view !== undefined && 'page' in answer ? answer.page?.(view) : undefined;
  const outgoing = { status: answer.status, document, naming, isSecret, view };
  return sendDocument(reply, request, representation, page === undefined ? outgoing : { ...outgoing, page });
};

export const mountResource = (app: FastifyInstance, services: Services, route: Resource): void => {
  const { operations, isDocumentation, path } = route;
  const methods = METHODS.filter((method) => operations[method] !== undefined);
  const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  const config = { cors: true };
  const withActions = createActions(route);
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
        if (operation === undefined && !isBrowsing(request, negotiate(request.headers.accept))) {
          throw methodNotAllowed(request, allow);
        }
        const access = operation?.access ?? 'token';
        keepCaller(request, await callerOf(services, request, reply, { access, isDocumentation }));
      },
      handler: async (request, reply) => {
        const caller = callerIn(request);
        if (caller === undefined) throw new TypeError('A request without a caller came through');
        const { visitor } = caller;
        if (method === 'POST' && visitor !== null) {
          return answerForm(services, { request, reply, caller, visitor, route, runs, allow, withActions });
        }
        if (run === undefined) throw methodNotAllowed(request, allow);
        return send(services, { request, reply, caller, withActions }, await run(request, caller));
      },
    });
  for (const method of methods) mount(method, operations[method], runs[method]);
  if (operations.GET !== undefined) mount('HEAD', operations.GET, runs.GET);
  // The forms of a page hide their method in a POST.
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
      return send(services, { request, reply, caller, withActions: (plain) => plain }, { status: 200, document });
    },
  });
  refuseOtherMethods(app, { path, allow, alsoServed: isPostForForms ? ['POST'] : [], cors: true });
};
