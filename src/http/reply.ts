/** A Document on its way out: format, tag, links of paging, and the headers that keep it where it belongs. */
import { randomBytes } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document, Naming } from '#hypermedia/document.ts';
import { html } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { pageHeaders } from './answers.ts';
import type { Visitor } from './caller.ts';
import { etagOf, isKnown } from './conditional.ts';
import { withoutCors } from './cors.ts';
import { linkHeader } from './link-header.ts';
import { contentTypeOf, type Representation } from './negotiate.ts';
import type { Services } from './services.ts';

const VARY = 'Accept, Authorization';

/** Of every answer to a program: it belongs to who asked, and is asked for again. */
export const privateHeaders = { 'Cache-Control': 'private, no-cache', Vary: VARY } as const;

const ONCE_KEY_BYTES = 18;

/** What a page shows beside the document; formats for programs need none of it. Undefined: it is not known who looks. */
export const viewOf = (
  { pages }: Services,
  visitor: Visitor | null | undefined,
  document: Document,
  rest: Pick<View, 'refused' | 'done' | 'charts' | 'advice' | 'refresh'> = {},
): View => ({
  nav: visitor === undefined ? html`` : (visitor?.nav(document) ?? pages.strangersNav()),
  session: visitor
    ? {
        nonceOf: ({ method, href }) => visitor.nonceOf([method, new URL(href).pathname]),
        onceKey: randomBytes(ONCE_KEY_BYTES).toString('base64url'),
      }
    : undefined,
  ...rest,
});

/**
 * The headers of every answer in this representation. A page is for no other site, and what somebody saw who was signed in
 * does not come back with the back button once they have signed out.
 */
export const representationHeaders = (
  reply: FastifyReply,
  representation: Representation,
  isPersonal = false,
): void => {
  if (representation.format.isPage === true) {
    withoutCors(reply);
    const caching = isPersonal ? 'no-store' : 'private, no-cache';
    reply.headers({ ...pageHeaders(), 'Cache-Control': caching, Vary: `${VARY}, Cookie` });
  } else {
    reply.headers(privateHeaders);
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
  const text = page ?? representation.format.render(document, naming, view);
  // As a text the framework would add a charset to media types that have none.
  const bytes = Buffer.from(text);
  representationHeaders(reply, representation, view?.session !== undefined);
  const links = linkHeader(document);
  if (links !== undefined) reply.header('Link', links);
  if (isSecret) return reply.code(status).header('Cache-Control', 'no-store').send(bytes);
  const etag = etagOf(document, representation.mediaType, text);
  reply.header('ETag', etag);
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead && status === 200 && isKnown(request.headers['if-none-match'], etag)) {
    return reply.code(304).removeHeader('Content-Type').send();
  }
  return reply.code(status).header('Content-Length', bytes.length).send(bytes);
};
