/** Responses of raw endpoints (pages, redirects, JSON) with their security headers. */
import { styleHash } from '#hypermedia/shell.ts';
import type { RawResponse } from './route.ts';

type Headers = RawResponse['headers'];

type PageNeeds = { formTargets?: readonly string[]; hasScripts?: boolean; frameOrigins?: readonly string[] };

/**
 * Returns the headers of a page. Scripts come from our own origin, and only pages of documents and those with passkeys have them:
 * the default forbids them where people approve apps or choose passwords. `form-action` must list every origin that a form's response
 * may redirect to, or Chromium drops the redirect silently. `formTargets` are origins that were checked against the client's registration.
 * `frameOrigins` are those whose pages may contain this one in a frame: none, except for sessions that a link began in a frame.
 */
export function pageHeaders({ formTargets = [], hasScripts = false, frameOrigins = [] }: PageNeeds = {}): Record<
  string,
  string
> {
  return {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': [
      "default-src 'none'",
      ...(hasScripts ? ["script-src 'self'", "connect-src 'self'"] : []),
      `style-src ${styleHash()}`,
      "img-src 'self'",
      `form-action ${["'self'", ...formTargets].join(' ')}`,
      `frame-ancestors ${frameOrigins.length === 0 ? "'none'" : frameOrigins.join(' ')}`,
      "base-uri 'none'",
    ].join('; '),
    // The header knows no list of origins.
    ...(frameOrigins.length === 0 && { 'X-Frame-Options': 'DENY' }),
    // With no-referrer a form would be sent with `Origin: null` (Fetch, "append a request Origin header"), and over plain http no
    // other header names its origin.
    'Referrer-Policy': 'same-origin',
    'Cache-Control': 'no-store',
  };
}

export function htmlAnswer(status: number, body: string, options: PageNeeds & { headers?: Headers } = {}): RawResponse {
  return { status, body, headers: { ...pageHeaders(options), ...options.headers } };
}

/** Returns a 303, so that a POST with credentials is never repeated at the target (RFC 9700 §4.12). */
export function redirectAnswer(location: string, headers: Headers = {}): RawResponse {
  return {
    status: 303,
    body: '',
    headers: { Location: location, 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer', ...headers },
  };
}

export function jsonAnswer(status: number, value: unknown, headers: Headers = {}): RawResponse {
  return {
    status,
    body: JSON.stringify(value),
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', Pragma: 'no-cache', ...headers },
  };
}
