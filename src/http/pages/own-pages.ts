/** What pages and their forms demand of a request: that it comes from a page of ours, on the host where they live. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '#core/problem.ts';
import { isSameOrigin } from './same-origin.ts';
import { targetOf, type HttpSettings } from '../services.ts';

/** A form may be posted by our own pages only. */
export const requireSameOrigin = ({ headers }: FastifyRequest, ownOrigin: string): void => {
  if (isSameOrigin(headers, ownOrigin)) return;
  const message = 'This form was not sent from a page of this site; open the page here and send it again';
  throw new Problem(403, { code: 'cross_site_request', message });
};

/**
 * Pages and their cookie live on the host of AUTH_URL: on the API's, where that is another, a look is sent over and a form
 * refused. Any other name that leads here may be a proxy's, and is let be.
 */
export const leaveForeignHost = async (
  request: FastifyRequest,
  reply: FastifyReply,
  { authOrigin, apiOrigin }: HttpSettings,
) => {
  const [own, foreign] = [new URL(authOrigin).host, new URL(apiOrigin).host];
  if (own === foreign || request.host !== foreign) return;
  if (request.method !== 'POST') {
    reply.headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
    return reply.redirect(authOrigin + targetOf(request), 302);
  }
  const message = `Forms are taken at ${authOrigin} only: open the page there and send it again`;
  throw new Problem(403, { code: 'cross_site_request', message });
};
