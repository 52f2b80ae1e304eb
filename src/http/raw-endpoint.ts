/**
 * Mounts raw endpoints (pages, their forms, protocol endpoints): raw request, raw response, and the same protections
 * for all.
 */
import { Readable } from 'node:stream';
import { parseCookie } from 'cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { parseForm, refuseEncoding } from './bodies/body.ts';
import { requireBearer } from './caller.ts';
import { optionsDocument, preflightHeaders } from './cors.ts';
import { dispatchFor } from './dispatch.ts';
import { sendDocument, viewOf } from './reply.ts';
import { negotiate } from './negotiate.ts';
import { redirectToPageHost, requireSameOrigin } from './requests.ts';
import type { Dispatch, DispatchingHandler, RawEndpoint, RawResponse, RawRequest, Params } from './route.ts';
import { type Services } from './services.ts';
import { addressOf, headersOf, queryOf, rawQueryOf, reportProblem, type Addresses } from './requests.ts';

const isForm = (contentType: string): boolean => /^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType);

export function toRawRequest(request: FastifyRequest, now: Date): RawRequest {
  const contentType = request.headers['content-type'] ?? '';
  const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
  if (bytes.length > 0) refuseEncoding(request.headers['content-encoding']);
  return {
    method: request.method,
    path: request.url.split('?', 1)[0] ?? '/',
    params: request.params as Params,
    query: queryOf(request),
    rawQuery: rawQueryOf(request),
    form: isForm(contentType) ? parseForm(bytes) : new URLSearchParams(),
    bytes,
    contentType,
    headers: headersOf(request),
    cookies: parseCookie(request.headers.cookie ?? ''),
    address: request.ip,
    now,
  };
}

export function sendRaw(reply: FastifyReply, response: RawResponse) {
  reply.code(response.status);
  for (const [name, value] of Object.entries(response.headers)) reply.header(name, value);
  const { body } = response;
  // Without Content-Length (RFC 9110 §8.6).
  if (response.status === 204) return reply.send();
  if (body instanceof Readable) return reply.send(body);
  return reply.header('Content-Length', Buffer.byteLength(body)).send(body);
}

export function mountRawEndpoint(
  app: FastifyInstance,
  services: Services,
  endpoint: RawEndpoint,
  addresses: Addresses,
): void {
  const { GET: get, ...others } = endpoint.operations;
  const allow = [...(get ? ['GET', 'HEAD'] : []), ...Object.keys(others), 'OPTIONS'].join(', ');
  const { settings } = services;
  const config = { cors: endpoint.cors };
  const errorHandler = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { problem, logref } = reportProblem(services, request, thrown);
    sendRaw(reply.headers(problem.headers), endpoint.answerProblem(problem, logref, settings.home));
  };

  const mount = (method: string, handle: DispatchingHandler) =>
    app.route({
      method,
      url: endpoint.path,
      config,
      errorHandler,
      onRequest: async (request, reply) => {
        if (endpoint.needsToken) await requireBearer(services, request, reply);
        if (!endpoint.sameOriginPosts) return;
        if (method === 'POST') requireSameOrigin(request, settings.authOrigin);
        await redirectToPageHost(request, reply, settings);
      },
      handler: async (request, reply) => {
        const dispatch: Dispatch = (sent) => dispatchFor(request, services, addresses, sent);
        return sendRaw(reply, await handle(toRawRequest(request, services.clock.now()), dispatch));
      },
    });
  if (get !== undefined) {
    mount('GET', get);
    mount('HEAD', get);
  }
  for (const [method, handle] of Object.entries(others)) mount(method, handle);

  app.route({
    method: 'OPTIONS',
    url: endpoint.path,
    config,
    errorHandler,
    handler: async (request, reply) => {
      reply.header('Allow', allow);
      if (endpoint.cors) reply.headers(preflightHeaders(allow, settings.versionHeader));
      if (request.headers['access-control-request-method'] !== undefined) return reply.code(204).send();
      const document = optionsDocument(endpoint, addressOf(request, services), allow);
      const representation = negotiate(request.headers.accept);
      const view = representation.format.isPage === true ? viewOf(services, null, document) : undefined;
      const { naming } = services;
      return sendDocument(reply, request, representation, { status: 200, document, naming, isSecret: false, view });
    },
  });
  addresses.add({ path: endpoint.path, allow, cors: endpoint.cors, errorHandler });
}
