/** The `Link` header of a page of a collection (RFC 8288), for clients that follow `next` until there is none. */
import type { Document } from '#hypermedia/document.ts';

const PAGING = new Set(['first', 'prev', 'next', 'last']);

/**
 * The paging links; undefined where there are none. The representation always has `prev` and `next`, equal to `self` at
 * the ends; here they are left out there.
 */
export const linkHeader = ({ links }: Document): string | undefined => {
  const self = links.find(({ rel }) => rel === 'self')?.href;
  const paging = links.filter(
    ({ rel, href }) => PAGING.has(rel) && !((rel === 'prev' || rel === 'next') && href === self),
  );
  if (paging.length === 0) return undefined;
  return paging.map(({ rel, href }) => `<${href}>; rel="${rel}"`).join(', ');
};
