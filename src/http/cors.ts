/** Cross-origin reads (Fetch standard): any origin, never with credentials. Pages and /authorize have none of this. */
import type { FastifyReply } from 'fastify';

export const corsHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'Location, ETag, Link, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate',
} as const;

export function preflightHeaders(allow: string, versionHeader: string): Record<string, string> {
  return {
    ...corsHeaders,
    'Access-Control-Allow-Methods': allow,
    'Access-Control-Allow-Headers': `Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, ${versionHeader}`,
    'Access-Control-Max-Age': '7200',
  };
}

/** Removes the CORS headers: scripts of other sites must not read responses that belong to a session. */
export function withoutCors(reply: FastifyReply): void {
  for (const name of Object.keys(corsHeaders)) reply.removeHeader(name);
}
