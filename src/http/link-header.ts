/** The `Link` header of a page of a collection (RFC 8288), for clients that follow `next` until there is none. */
import type { Document } from '#hypermedia/document.ts';

/**
 * Each link repeats the whole query, and many a proxy takes 4 to 8 KiB for all headers of an answer: a larger header would
 * turn it into a 502, while the links stand in the body, too.
 */
const HEADER_BYTES = 4 * 1024;

/** In the order in which they are left out; `next` comes last, for without it this page would be taken for the end. */
const PAGING = ['last', 'first', 'prev', 'next'];
const SHOWN = ['first', 'prev', 'next', 'last'];

/**
 * The paging links, as many as fit; undefined where there are none. The representation always has `prev` and `next`, equal
 * to `self` at the ends; here they are left out there.
 */
export const linkHeader = ({ links }: Document): string | undefined => {
  const hrefOf = (rel: string) => links.find((link) => link.rel === rel)?.href;
  const self = hrefOf('self');
  const written = new Map<string, string>();
  for (const rel of SHOWN) {
    const href = hrefOf(rel);
    const isEnd = (rel === 'prev' || rel === 'next') && href === self;
    if (href !== undefined && !isEnd) written.set(rel, `<${href}>; rel="${rel}"`);
  }
  const headerNow = (): string => [...written.values()].join(', ');
  for (const rel of PAGING) if (headerNow().length > HEADER_BYTES) written.delete(rel);
  return headerNow() || undefined;
};
