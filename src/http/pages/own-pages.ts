/** Checks that requests for pages and their forms come from our own pages, on the host that serves them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '#core/problem.ts';
import { type HttpSettings } from '../services.ts';
import { pathAndQueryOf } from '../requests.ts';

/**
 * Returns whether a request was sent by one of our own pages, according to `Sec-Fetch-Site`, else `Origin`. A request
 * with neither is not: every browser that can store our cookie sends one of them. Header names are in lower case.
 */
export function isSameOrigin(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ownOrigin: string,
): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? headers['origin'] === ownOrigin : site === 'same-origin';
}

/** Throws a 403 unless the form was posted by one of our own pages. */
export function requireSameOrigin({ headers }: FastifyRequest, ownOrigin: string): void {
  if (isSameOrigin(headers, ownOrigin)) return;
  const message = 'This form was not sent from a page of this site; open the page here and send it again';
  throw new Problem(403, { code: 'cross_site_request', message });
}

/**
 * Redirects page requests on the API's host to the host of AUTH_URL, where pages and their cookie live, and rejects
 * forms there. Any other host name may be that of a proxy and is accepted.
 */
export async function redirectToPageHost(
  request: FastifyRequest,
  reply: FastifyReply,
  { authOrigin, apiOrigin }: HttpSettings,
) {
  const [own, apiHost] = [new URL(authOrigin).host, new URL(apiOrigin).host];
  if (own === apiHost || request.host !== apiHost) return;
  if (request.method !== 'POST') {
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    return reply.redirect(authOrigin + pathAndQueryOf(request), 302);
  }
  const message = `Forms are accepted at ${authOrigin} only: open the page there and send it again`;
  throw new Problem(403, { code: 'cross_site_request', message });
}
