/** The `Link` header of a page of a collection (RFC 8288), for clients that follow `next` until there is none. */
import type { Document } from '#hypermedia/document.ts';

/**
 * Each link repeats the whole query, up to 16 KiB of it, and many a proxy takes 4 to 8 KiB for all headers of an answer: a
 * larger header would turn it into a 502, while the links stand in the body, too.
 */
const HEADER_BYTES = 4 * 1024;

const PAGING = new Set(['first', 'prev', 'next', 'last']);

/**
 * The paging links; undefined where there are none, or they are too long for a header. The representation always has `prev` and `next`, equal to `self` at
 * the ends; here they are left out there.
 */
export const linkHeader = ({ links }: Document): string | undefined => {
  const self = links.find(({ rel }) => rel === 'self')?.href;
  const paging = links.filter(
    ({ rel, href }) => PAGING.has(rel) && !((rel === 'prev' || rel === 'next') && href === self),
  );
  if (paging.length === 0) return undefined;
  const header = paging.map(({ rel, href }) => `<${href}>; rel="${rel}"`).join(', ');
  return header.length <= HEADER_BYTES ? header : undefined;
};
