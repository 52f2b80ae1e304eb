/** The way of an API request: version → method → bearer → body → handler → format. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { json, type Document } from '#hypermedia/document.ts';
import { invalid, Problem } from '#kernel/problem.ts';
import { requirePlatform, type Principal } from '#kernel/principal.ts';
import { bearerTokenOf } from './bearer-token.ts';
import { preflightHeaders } from './cors.ts';
import { parseBody } from './body.ts';
import { negotiate } from './negotiate.ts';
import { type Answer, type Operation } from './operation.ts';
import { METHODS, type Method, type Params, type Resource } from './route.ts';
import { headersOf, queryOf, refuseOtherMethods, type Services } from './services.ts';
import { arraysOf, createValidator } from './validate.ts';

const API_VERSION = '1';

const requireVersion = (header: string | string[] | undefined, name: string): void => {
  if (header === undefined) {
    throw new Problem(400, {
      code: 'version_required',
      message: `Send the header ${name}: ${API_VERSION}`,
      field: name,
    });
  }
  if (header === API_VERSION) return;
  const message = `The header ${name} must be ${API_VERSION}, the one supported version`;
  throw new Problem(400, { code: 'version_unsupported', message, field: name });
};

/** The bearer token of the header; one in the query is refused, whatever the header says (RFC 6750 §2.3). */
const bearerOf = (request: FastifyRequest): string | undefined => {
  if (queryOf(request).has('access_token')) {
    throw new Problem(400, {
      code: 'invalid_request',
      message: 'Send the access token in the Authorization header, never in the address',
      field: 'access_token',
    });
  }
  return bearerTokenOf(request.headers.authorization);
};

const principalOf = async (
  services: Services,
  request: FastifyRequest,
  operation: Operation,
): Promise<Principal | null> => {
  const token = bearerOf(request);
  if (token === undefined) {
    if (operation.access === 'anyone') return null;
    throw new Problem(
      401,
      { code: 'invalid_token', message: 'The access token provided is invalid' },
      { headers: { 'WWW-Authenticate': 'Bearer realm="halcyon"' } },
    );
  }
  const principal = await services.authenticate(token, services.clock.now());
  if (operation.access === 'platform') requirePlatform(principal);
  return principal;
};

const options = (route: Resource, address: string, allow: string): Document => ({
  name: 'options',
  links: [{ rel: 'self', href: address, title: 'What can be done here' }],
  embedded: [],
  properties: [
    json('allow', allow.split(', ')),
    json('methods', {
      ...Object.fromEntries(Object.entries(route.operations).map(([method, operation]) => [method, operation.summary])),
      ...(route.operations.GET === undefined ? {} : { HEAD: 'The headers of GET, without its body' }),
      OPTIONS: 'This document',
    }),
  ],
});

const send = (reply: FastifyReply, services: Services, request: FastifyRequest, answer: Answer) => {
  const caching = 'isSecret' in answer ? 'no-store' : 'private, no-cache';
  reply.headers({ Vary: 'Accept, Authorization', 'Cache-Control': caching });
  if (answer.status === 204) return reply.code(204).send();
  if (answer.status === 201) reply.header('Location', answer.location);
  const { mediaType, render } = negotiate(request.headers.accept);
  const naming = 'naming' in answer && answer.naming !== undefined ? answer.naming : services.naming;
  const bytes = Buffer.from(render(answer.document, naming));
  return reply.code(answer.status).header('Content-Type', mediaType).header('Content-Length', bytes.length).send(bytes);
};

const createHandler = (services: Services, operation: Operation) => {
  const arrays = operation.input === undefined ? undefined : arraysOf(operation.input);
  const validate = operation.input === undefined ? undefined : createValidator(operation.input);
  return async (request: FastifyRequest, principal: Principal | null): Promise<Answer> => {
    const asked = {
      principal,
      params: request.params as Params,
      query: queryOf(request),
      headers: headersOf(request),
      address: request.ip,
      now: services.clock.now(),
    };
    if (arrays === undefined || validate === undefined) return operation.handle({ ...asked, body: undefined });
    const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
    const { value, faults, sound } = validate(parseBody(bytes, request.headers['content-type'] ?? '', arrays));
    if (faults.length === 0) return operation.handle({ ...asked, body: value });
    const further = (await operation.review?.({ ...asked, body: sound })) ?? [];
    // A member that the schema refused is missing for the review: what it says of that one is not true.
    const refused = new Set(faults.map(({ field }) => field?.split('.', 1)[0]));
    throw invalid(...faults, ...further.filter(({ field }) => !refused.has(field?.split('.', 1)[0])));
  };
};

/** What the checks before the body found, kept for the handler. */
const principals = new WeakMap<FastifyRequest, Principal | null>();

export const mountResource = (app: FastifyInstance, services: Services, route: Resource): void => {
  const methods = METHODS.filter((method) => route.operations[method] !== undefined);
  const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');

  const config = { cors: true };
  const checksBeforeBody = (operation: Operation) => async (request: FastifyRequest) => {
    negotiate(request.headers.accept);
    requireVersion(request.headers[services.settings.versionHeader.toLowerCase()], services.settings.versionHeader);
    principals.set(request, await principalOf(services, request, operation));
  };

  const mount = (method: Method | 'HEAD', operation: Operation) => {
    const handle = createHandler(services, operation);
    app.route({
      method,
      url: route.path,
      config,
      bodyLimit: operation.bodyLimitBytes ?? services.settings.bodyLimitBytes,
      onRequest: checksBeforeBody(operation),
      handler: async (request, reply) =>
        send(reply, services, request, await handle(request, principals.get(request) ?? null)),
    });
  };
  for (const method of methods) {
    const operation = route.operations[method];
    if (operation !== undefined) mount(method, operation);
  }
  if (route.operations.GET !== undefined) mount('HEAD', route.operations.GET);

  app.route({
    method: 'OPTIONS',
    url: route.path,
    config,
    handler: async (request, reply) => {
      reply.header('Allow', allow);
      if (request.headers['access-control-request-method'] !== undefined) {
        return reply.code(204).headers(preflightHeaders(allow, services.settings.versionHeader)).send();
      }
      const address = new URL(request.url.split('?', 1)[0] ?? '/', services.naming.baseUrl).href;
      const document = options(route, address, allow);
      return send(reply, services, request, { status: 200, document });
    },
  });
  refuseOtherMethods(app, { path: route.path, allow, cors: true });
};
