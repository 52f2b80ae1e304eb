/**
 * Sends a Document (format, entity tag, paging links, and headers for caching and security) or an event stream. Conditional requests (RFC
 * 9110 §13) compare the entity tag: 304 before it is sent, 412 before an operation changes the version.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Representation, contentTypeOf, negotiate } from '#hypermedia/render.ts';
import type { EventStream } from './operation.ts';
import { hash, randomBytes } from 'node:crypto';
import type { Document, Naming } from '#hypermedia/document.ts';
import { Problem } from '#core/problem.ts';
import { leadsHere } from '#hypermedia/paging.ts';
import { html } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { optionsDocument, pageHeaders, preflightHeaders, withoutCors } from './answers.ts';
import { storedCaller, type Visitor } from './caller.ts';
import { addressOf, type ErrorHandler } from './requests.ts';
import type { Route } from './route.ts';
import type { Services, ShownDocument } from './services.ts';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/**
 * Returns a strong entity tag: the version of the document, if it has one, and a hash of media type and bytes. The
 * bytes are included because they depend on more than the version: webhook health, the store's time zone, the reader.
 */
export function etagOf({ version }: Pick<Document, 'version'>, mediaType: string, text: string): string {
  const digest = hash('sha1', `${mediaType}\n${text}`, 'base64url');
  return version === undefined ? `"${digest}"` : `"${version}-${digest}"`;
}

const TAG = /"([\x21\x23-\x7e\x80-\u{ffff}]*)"/gu;

/** Returns the tags of a header without their quotes, and without `W/`. */
const tagsOf = (header: string): string[] => [...header.matchAll(TAG)].map(([, tag = '']) => tag);

/**
 * Returns whether `If-None-Match` names the tag, by weak comparison (RFC 9110 §13.1.2), or names it with a suffix such as `-gzip`, which
 * proxies append that compress the response.
 */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  const own = etag.slice(1, -1);
  return ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some((tag) => tag === own || tag.startsWith(`${own}-`));
}

/** Returns the version in an entity tag, which is the same in every format and for every query. */
const versionIn = (tag: string): string | undefined => /^([^-]+)-/.exec(tag)?.[1];

type Conditions = Readonly<{ 'if-match'?: string | undefined; 'if-none-match'?: string | undefined }>;

/**
 * Returns the check that an operation runs before it changes version `currentVersion`. The check throws a 412 unless
 * `If-Match` is absent, `*`, or names the version (RFC 9110 §13.1.1), and if `If-None-Match` is `*` or names it (§13.1.2). Weak tags count:
 * proxies that compress a response weaken its tag, and the version in the tag is exact all the same.
 */
export function unmodifiedSince({ 'if-match': ifMatch, 'if-none-match': ifNoneMatch }: Conditions) {
  return (currentVersion: number | string): void => {
    const namesVersion = (tag: string): boolean => versionIn(tag) === String(currentVersion);
    const isExcluded =
      ifNoneMatch !== undefined && (ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some(namesVersion));
    const isMatch = ifMatch === undefined || ifMatch.trim() === '*' || tagsOf(ifMatch).some(namesVersion);
    if (isMatch && !isExcluded) return;
    const field = isMatch ? 'If-None-Match' : 'If-Match';
    const message = isMatch
      ? 'The resource exists already, which If-None-Match excludes'
      : 'The resource has changed since you read it: read it again, and send the change with its new ETag';
    throw new Problem(412, { code: 'precondition_failed', message, field });
  };
}

/**
 * For the `Link` header of a collection page (RFC 8288). Each link repeats the whole query, and many proxies accept 4 to 8 KiB
 * for all headers of a response: a larger header would cause a 502. The body contains the links, too.
 */
const HEADER_BYTES = 4 * 1024;

/**
 * In the order in which links are dropped; `next` is last, because without it this page would look like the last one.
 */
const DROP_ORDER = ['last', 'first', 'prev', 'next'];
const HEADER_ORDER = ['first', 'prev', 'next', 'last'];

/**
 * Returns the paging links that fit; undefined without any. The representation always has `prev` and `next`, which lead
 * to the same page at the ends; the header omits them there.
 */
export function linkHeader(document: Document): string | undefined {
  const written = new Map<string, string>();
  for (const rel of HEADER_ORDER) {
    const href = document.links.find((link) => link.rel === rel)?.href;
    const isEnd = (rel === 'prev' || rel === 'next') && href !== undefined && leadsHere(document, href);
    if (href !== undefined && !isEnd) written.set(rel, `<${href}>; rel="${rel}"`);
  }
  const headerNow = (): string => [...written.values()].join(', ');
  for (const rel of DROP_ORDER) if (headerNow().length > HEADER_BYTES) written.delete(rel);
  return headerNow() || undefined;
}

const VARY = 'Accept, Accept-Encoding, Authorization';

/** Headers of every response to a program: it may be cached for this caller only, and must be revalidated. */
export const privateHeaders = { 'Cache-Control': 'private, no-cache', Vary: VARY } as const;

const ONCE_KEY_BYTES = 18;

/** Returns the view of a page. `visitor` is null without a session, and undefined if it is not known. */
export function viewOf(
  { pages }: Services,
  visitor: Visitor | null | undefined,
  document: Document,
  rest: Pick<View, 'refused' | 'done' | 'charts' | 'advice' | 'summary'> = {},
): View {
  return {
    ...(visitor === undefined ? { nav: html`` } : (visitor?.nav(document) ?? { nav: pages.anonymousNav() })),
    session: visitor
      ? {
          nonceOf: ({ method, href }) => visitor.nonceOf([method, new URL(href).pathname]),
          onceKey: randomBytes(ONCE_KEY_BYTES).toString('base64url'),
        }
      : undefined,
    ...rest,
  };
}

/**
 * Sets the headers of a representation. Pages are not readable from other sites, and those of a session are not stored,
 * so that the back button does not show them after signing out.
 */
export function representationHeaders(reply: FastifyReply, representation: Representation, isPersonal = false): void {
  if (representation.format.isPage === true) {
    withoutCors(reply);
    const caching = isPersonal ? 'no-store' : 'private, no-cache';
    const frameOrigins = storedCaller(reply.request)?.frameOrigins ?? [];
    reply.headers({
      ...pageHeaders({ hasScripts: true, frameOrigins }),
      'Cache-Control': caching,
      Vary: `${VARY}, Cookie, Sec-Fetch-Dest`,
    });
  } else {
    reply.headers(privateHeaders);
  }
  reply.header('Content-Type', contentTypeOf(representation));
}

/** Returns the document with its secrets replaced by `confirmAt`, where the reader proves who they are; unchanged if undefined. */
export function withheldSecrets(document: Document, confirmAt: string | undefined): Document {
  if (confirmAt === undefined) return document;
  return {
    ...document,
    properties: document.properties.map((property) => {
      if (property.isWithheld === true) return { ...property, confirmAt };
      return property.kind === 'secret' && property.value !== null ? { ...property, value: null, confirmAt } : property;
    }),
    embedded: document.embedded.map((embedded) => ({
      ...embedded,
      documents: embedded.documents.map((one) => withheldSecrets(one, confirmAt)),
    })),
  };
}

/** Returns the designed page of the document; undefined if it has its generic page. */
export async function designedPage(
  { designedPages, clock }: Services,
  shown: Omit<ShownDocument, 'now'>,
): Promise<string | undefined> {
  return designedPages.get(shown.document.name)?.({ ...shown, now: clock.now() });
}

type Outgoing = {
  status: number;
  document: Document;
  naming: Naming;
  isSecret: boolean;
  view: View | undefined;
  /** Replaces the format's rendering of the document. */
  page?: string | undefined;
  /** The reader has no session, whose pages have nonces. */
  mayCompress?: boolean;
};

export async function sendDocument(
  reply: FastifyReply,
  request: FastifyRequest,
  representation: Representation,
  { status, document, naming, isSecret, view, page, mayCompress = false }: Outgoing,
) {
  const text = page ?? representation.format.render(document, naming, view);
  // The framework would add a charset to the media type of a string.
  const bytes = Buffer.from(text);
  representationHeaders(reply, representation, view?.session !== undefined);
  const links = linkHeader(document);
  if (links !== undefined) reply.header('Link', links);
  if (isSecret) return reply.code(status).header('Cache-Control', 'no-store').send(bytes);
  const etag = etagOf(document, representation.mediaType, text);
  const isRead = status === 200 && (request.method === 'GET' || request.method === 'HEAD');
  const isAccepted = mayCompress && isRead && acceptsEncoding(request.headers['accept-encoding'] ?? '', 'gzip');
  const isCompressed = isAccepted && isCompressible(document, bytes);
  reply.header('ETag', isCompressed ? gzipTag(etag) : etag);
  if (isRead && isKnown(request.headers['if-none-match'], etag)) {
    return reply.code(304).removeHeader('Content-Type').send();
  }
  if (isCompressed) reply.header('Content-Encoding', 'gzip');
  const body = isCompressed ? await compress(bytes) : bytes;
  return reply.code(status).header('Content-Length', body.length).send(body);
}

/** Mounts OPTIONS of a route: a preflight (Fetch standard), or the document of its methods. */
export function mountOptions(
  app: FastifyInstance,
  services: Services,
  route: Route,
  { allow, cors, errorHandler }: { allow: string; cors: boolean; errorHandler?: ErrorHandler },
): void {
  const { naming, settings } = services;
  app.route({
    method: 'OPTIONS',
    url: route.path,
    config: { cors },
    ...(errorHandler && { errorHandler }),
    handler: async (request, reply) => {
      reply.header('Allow', allow);
      if (request.headers['access-control-request-method'] !== undefined)
        return reply
          .code(204)
          .headers(cors ? preflightHeaders(allow, settings.versionHeader) : {})
          .send();
      const document = optionsDocument(route, addressOf(request, services), allow);
      const representation = negotiate(request.headers.accept);
      const view = representation.format.isPage === true ? viewOf(services, null, document) : undefined;
      return sendDocument(reply, request, representation, { status: 200, document, naming, isSecret: false, view });
    },
  });
}

/** Proxies must neither store nor buffer the stream; nginx buffers it without `X-Accel-Buffering`. */
const streamHeaders = { ...privateHeaders, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' } as const;

/** Sends server-sent events (WHATWG HTML, "Server-sent events"). */
export function sendStream(
  reply: FastifyReply,
  request: FastifyRequest,
  { mediaType }: Representation,
  { open }: EventStream,
) {
  const stream = request.method === 'HEAD' ? undefined : open();
  return reply.headers({ ...streamHeaders, 'Content-Type': mediaType }).send(stream);
}

/** Below it a response fits in one packet anyway. */
const COMPRESSED_BYTES_MIN = 1_024;

/** Returns whether the header accepts the encoding (RFC 9110 §12.5.3); a wildcard does not count. */
export function acceptsEncoding(header: string, encoding: 'br' | 'gzip'): boolean {
  return header.split(',').some((part) => {
    const [name = '', quality = 'q=1'] = part.toLowerCase().split(';');
    return name.trim() === encoding && !/^q=0(\.0*)?$/.test(quality.trim());
  });
}

const hasSecret = ({ properties, embedded }: Document): boolean =>
  properties.some(({ kind, value }) => kind === 'secret' && value !== null) ||
  embedded.some(({ documents }) => documents.some(hasSecret));

/**
 * Returns whether the representation of a Document is worth compressing (RFC 9110 §8.4.1) and contains no secret: from the length of a
 * response whose query is repeated in it, an observer of the network learns what else it contains (BREACH).
 */
function isCompressible(document: Document, bytes: Buffer): boolean {
  return bytes.length >= COMPRESSED_BYTES_MIN && !hasSecret(document);
}

/** Returns the entity tag of the compressed representation, whose bytes differ (RFC 9110 §8.8.3.3). `isKnown` reads it as that of both. */
export function gzipTag(etag: string): string {
  return etag.replace(/"$/, '-gzip"');
}

/**
 * Compresses in a thread of its own, at zlib's usual level: a page of 300 resources (466 KB) takes 3.1 ms and becomes 21 KB; at level 1 it takes
 * 0.9 ms and becomes 30 KB.
 */
export const compress: (bytes: Buffer) => Promise<Buffer> = promisify(gzip);
