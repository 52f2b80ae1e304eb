/** The `Link` header of a page of a collection (RFC 8288), for clients that follow `next` until there is none. */
import type { Document } from '#hypermedia/document.ts';
import { leadsHere } from '#hypermedia/page.ts';

/**
 * Each link repeats the whole query, and many a proxy takes 4 to 8 KiB for all headers of an answer: a larger header would
 * turn it into a 502, while the links stand in the body, too.
 */
const HEADER_BYTES = 4 * 1024;

/** In the order in which they are left out; `next` comes last, for without it this page would be taken for the end. */
const PAGING = ['last', 'first', 'prev', 'next'];
const SHOWN = ['first', 'prev', 'next', 'last'];

/**
 * The paging links, as many as fit; undefined where there are none. The representation always has `prev` and `next`, which
 * lead to the same page at the ends; here they are left out there.
 */
export const linkHeader = (document: Document): string | undefined => {
  const written = new Map<string, string>();
  for (const rel of SHOWN) {
    const href = document.links.find((link) => link.rel === rel)?.href;
    const isEnd = (rel === 'prev' || rel === 'next') && href !== undefined && leadsHere(document, href);
    if (href !== undefined && !isEnd) written.set(rel, `<${href}>; rel="${rel}"`);
  }
  const headerNow = (): string => [...written.values()].join(', ');
  for (const rel of PAGING) if (headerNow().length > HEADER_BYTES) written.delete(rel);
  return headerNow() || undefined;
};
