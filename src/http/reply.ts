/** A Document on its way out: format, tag, links of paging, and the headers that keep it where it belongs. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { pageHeaders } from './answers.ts';
import type { Caller } from './caller.ts';
import { etagOf, isKnown } from './conditional.ts';
import { corsHeaders } from './cors.ts';
import { linkHeader } from './link-header.ts';
import { contentTypeOf, type Representation } from './negotiate.ts';
import type { Services } from './services.ts';

const VARY = 'Accept, Authorization';

/** What a page shows beside the document; formats for programs need none of it. */
export const viewOf = (
  { pages }: Services,
  { visitor }: Pick<Caller, 'visitor'>,
  rest: Pick<View, 'refused' | 'done'> = {},
): View => ({
  nav: pages.nav(visitor),
  nonceOf: visitor === null ? undefined : ({ method, href }) => visitor.nonceOf([method, new URL(href).pathname]),
  ...rest,
});

/** The headers of every answer in this representation. A page belongs to one session, and no other site may read it. */
export const representationHeaders = (reply: FastifyReply, representation: Representation): void => {
  if (representation.format.isPage === true) {
    for (const name of Object.keys(corsHeaders)) reply.removeHeader(name);
    reply.headers({ ...pageHeaders(), 'Cache-Control': 'private, no-cache', Vary: `${VARY}, Cookie` });
  } else {
    reply.headers({ 'Cache-Control': 'private, no-cache', Vary: VARY });
  }
  reply.header('Content-Type', contentTypeOf(representation));
};

type Outgoing = {
  status: number;
  document: Document;
  naming: Naming;
  isSecret: boolean;
  view: View | undefined;
  /** In place of what the format makes of the document. */
  page?: string;
};

export const sendDocument = (
  reply: FastifyReply,
  request: FastifyRequest,
  representation: Representation,
  { status, document, naming, isSecret, view, page }: Outgoing,
) => {
  const bytes = Buffer.from(page ?? representation.format.render(document, naming, view));
  representationHeaders(reply, representation);
  const links = linkHeader(document);
  if (links !== undefined) reply.header('Link', links);
  if (isSecret) return reply.code(status).header('Cache-Control', 'no-store').send(bytes);
  const etag = etagOf(document, representation.mediaType, bytes);
  reply.header('ETag', etag);
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead && status === 200 && isKnown(request.headers['if-none-match'], etag)) {
    return reply.code(304).removeHeader('Content-Type').send();
  }
  return reply.code(status).header('Content-Length', bytes.length).send(bytes);
};
