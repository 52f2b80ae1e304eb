/**
 * Responses of raw endpoints (pages, redirects, JSON) with their security headers, and the headers of cross-origin reads (Fetch standard): any
 * origin, never with credentials. Pages and /authorize have none of these.
 */
import { styleHash } from '#hypermedia/shell.ts';
import type { RawResponse, Route } from './route.ts';
import type { FastifyReply } from 'fastify';
import { json, type Document } from '#hypermedia/document.ts';

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

export const corsHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'Location, ETag, Link, Retry-After, RateLimit, RateLimit-Policy, Preference-Applied, WWW-Authenticate',
} as const;

export function preflightHeaders(allow: string, versionHeader: string): Record<string, string> {
  return {
    ...corsHeaders,
    'Access-Control-Allow-Methods': allow,
    'Access-Control-Allow-Headers': `Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Prefer, ${versionHeader}`,
    'Access-Control-Max-Age': '7200',
  };
}

/** Removes the CORS headers: scripts of other sites must not read responses that belong to a session. */
export function withoutCors(reply: FastifyReply): void {
  for (const name of Object.keys(corsHeaders)) reply.removeHeader(name);
}

/** Raw endpoints have no summaries of their own: a page explains itself, and the protocol specifies an endpoint. */
const PAGE = { GET: 'Shows the page', POST: 'Submits the form of the page' } as const;
const ENDPOINT = {
  GET: 'A read of the protocol that /openapi.json names',
  POST: 'A request of the protocol that /openapi.json names',
  PUT: 'A replacement of the protocol that /openapi.json names',
  DELETE: 'A deletion of the protocol that /openapi.json names',
} as const;

function summariesOf(route: Route): Record<string, string> {
  if (route.kind === 'raw') {
    const summaries = route.sameOriginPosts ? PAGE : ENDPOINT;
    return Object.fromEntries(Object.entries(summaries).filter(([method]) => Object.hasOwn(route.operations, method)));
  }
  return Object.fromEntries(Object.entries(route.operations).map(([method, { summary }]) => [method, summary]));
}

/** Returns the document of a response to OPTIONS. */
export function optionsDocument(route: Route, address: string, allow: string): Document {
  return {
    name: 'options',
    links: [{ rel: 'self', href: address, title: 'Methods of this address' }],
    embedded: [],
    properties: [
      json('allow', allow.split(', ')),
      json('methods', {
        ...summariesOf(route),
        ...(route.operations.GET === undefined ? {} : { HEAD: 'The headers of GET, without its body' }),
        OPTIONS: 'This document',
      }),
    ],
  };
}
