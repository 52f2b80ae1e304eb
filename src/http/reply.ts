/** Sends a Document: format, entity tag, paging links, and headers for caching and security. */
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

/** Headers of every response to a program: it may be cached for this caller only, and must be revalidated. */
export const privateHeaders = { 'Cache-Control': 'private, no-cache', Vary: VARY } as const;

const ONCE_KEY_BYTES = 18;

/** Returns the view of a page. `visitor` is null without a session, and undefined if it is not known. */
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
 * Sets the headers of a representation. Pages are not readable from other sites, and those of a session are not stored,
 * so that the back button does not show them after signing out.
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
  /** Replaces the format's rendering of the document. */
  page?: string;
};

export const sendDocument = (
  reply: FastifyReply,
  request: FastifyRequest,
  representation: Representation,
  { status, document, naming, isSecret, view, page }: Outgoing,
) => {
  const text = page ?? representation.format.render(document, naming, view);
  // The framework would add a charset to the media type of a string.
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
