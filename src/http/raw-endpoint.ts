/**
 * Mounts raw endpoints (pages, their forms, protocol endpoints): raw request, raw response, and the same protections for all. An endpoint may
 * send requests for its caller to resources of the same server. Each passes through what every request of the caller does (token, scopes,
 * rate limit, validation, idempotency keys, audit, metrics), with the token, the address and the trace of the caller.
 */
import { Readable } from 'node:stream';
import { parseCookie } from 'cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { parseForm, refuseEncoding } from './bodies/body.ts';
import { requireBearer, API_VERSION } from './caller.ts';
import { mountOptions } from './reply.ts';
import { defaultRepresentation } from '#hypermedia/render.ts';
import {
  redirectToPageHost,
  requireSameOrigin,
  headersOf,
  queryOf,
  rawQueryOf,
  reportProblem,
  type Addresses,
} from './requests.ts';
import type { Dispatch, DispatchingHandler, RawEndpoint, RawResponse, RawRequest, Params } from './route.ts';
import type { Services } from './services.ts';
import { invalidValue, invalid } from '#core/problem.ts';

/** As long as the longest address that fits into the headers of a real request. */
const HREF_CHARACTERS_MAX = 16 * 1024;

/** Returns path and query of a resource. Pages, protocol endpoints and other servers are none, so the router of the server decides. */
function targetOf(href: string, baseUrl: string, addresses: Addresses): string {
  const url = href.length > HREF_CHARACTERS_MAX ? null : URL.parse(href, baseUrl);
  const isHere = url !== null && url.href.startsWith(`${new URL(baseUrl).origin}/`);
  if (isHere && addresses.isResource(url.pathname)) return url.pathname + url.search;
  const message = 'href must be the address or path of a resource of this API, such as a link of a response';
  throw invalid(invalidValue('href', message));
}

/** Sends a request for the caller of `request`. */
async function dispatchFor(
  request: FastifyRequest,
  { naming: { baseUrl }, settings: { versionHeader } }: Services,
  addresses: Addresses,
  { method, href, accept = defaultRepresentation.mediaType, key, body }: Parameters<Dispatch>[0],
): ReturnType<Dispatch> {
  const { authorization, 'user-agent': userAgent, traceparent, tracestate } = request.headers;
  const response = await request.server.inject({
    method,
    url: targetOf(href, baseUrl, addresses),
    remoteAddress: request.ip,
    headers: {
      host: new URL(baseUrl).host,
      'user-agent': userAgent,
      ...(authorization !== undefined && { authorization }),
      ...(traceparent !== undefined && { traceparent }),
      ...(tracestate !== undefined && { tracestate }),
      [versionHeader]: API_VERSION,
      accept,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== undefined && { 'idempotency-key': key }),
    },
    ...(body !== undefined && { payload: body }),
  });
  return { status: response.statusCode, text: response.body };
}

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
  mountOptions(app, services, endpoint, { allow, cors: endpoint.cors, errorHandler });
  addresses.add({ path: endpoint.path, allow, cors: endpoint.cors, errorHandler });
}
