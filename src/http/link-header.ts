/** The `Link` header of a collection page (RFC 8288), for clients that follow `next` until it is absent. */
import type { Document } from '#hypermedia/document.ts';
import { leadsHere } from '#hypermedia/page.ts';

/**
 * Each link repeats the whole query, and many proxies accept 4 to 8 KiB for all headers of a response: a larger header
 * would cause a 502. The body contains the links, too.
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
export const linkHeader = (document: Document): string | undefined => {
  const written = new Map<string, string>();
  for (const rel of HEADER_ORDER) {
    const href = document.links.find((link) => link.rel === rel)?.href;
    const isEnd = (rel === 'prev' || rel === 'next') && href !== undefined && leadsHere(document, href);
    if (href !== undefined && !isEnd) written.set(rel, `<${href}>; rel="${rel}"`);
  }
  const headerNow = (): string => [...written.values()].join(', ');
  for (const rel of DROP_ORDER) if (headerNow().length > HEADER_BYTES) written.delete(rel);
  return headerNow() || undefined;
};
