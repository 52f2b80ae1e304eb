/**
 * Requests that an endpoint sends for its caller to resources of the same server. Each passes through what every request of the caller does
 * (token, scopes, rate limit, validation, idempotency keys, audit, metrics), with the token, the address and the trace of the caller.
 */
import type { FastifyRequest } from 'fastify';
import { invalid } from '#core/problem.ts';
import { API_VERSION } from './caller.ts';
import { defaultRepresentation } from './negotiate.ts';
import type { Addresses } from './requests.ts';
import type { Dispatch } from './route.ts';
import type { Services } from './services.ts';

/** As long as the longest address that fits into the headers of a real request. */
const HREF_CHARACTERS_MAX = 16 * 1024;

/** Returns path and query of a resource. Pages, protocol endpoints and other servers are none, so the router of the server decides. */
function targetOf(href: string, baseUrl: string, addresses: Addresses): string {
  const url = href.length > HREF_CHARACTERS_MAX ? null : URL.parse(href, baseUrl);
  const isHere = url !== null && url.href.startsWith(`${new URL(baseUrl).origin}/`);
  if (isHere && addresses.isResource(url.pathname)) return url.pathname + url.search;
  const message = 'href must be the address or path of a resource of this API, such as a link of a response';
  throw invalid({ code: 'invalid_value', message, field: 'href' });
}

/** Sends a request for the caller of `request`. */
export async function dispatchFor(
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
