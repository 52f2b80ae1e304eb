/** Cross-origin reads (Fetch standard): any origin, never with credentials. Pages and /authorize have none of this. */
import type { FastifyReply } from 'fastify';
import { json, type Document } from '#hypermedia/document.ts';
import type { Route } from './route.ts';

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
