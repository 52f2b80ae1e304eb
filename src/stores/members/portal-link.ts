/** A link that lets a member into the pages of a store: the schema of the request that makes it, and its Document. */
import { Type } from 'typebox';
import { formatDate } from '#hypermedia/date.ts';
import type { Document } from '#hypermedia/document.ts';
import { addressOfStore } from '../store-document.ts';
import { addressOfMembers } from './member.ts';
import type { MemberRow } from './members-sql.ts';

export const newPortalLink = Type.Object(
  {
    user: Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the member whom the link lets in.',
    }),
  },
  { additionalProperties: false },
);

/** `url` is the link itself, which no later response has. */
export function portalLinkDocument(
  { storeId, userId, timeZone }: Pick<MemberRow, 'storeId' | 'userId' | 'timeZone'>,
  { baseUrl, url, expires }: { baseUrl: string; url: string; expires: Date },
): Document {
  return {
    name: 'portal_link',
    title: 'A link to the pages of a store',
    links: [
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store' },
      { rel: 'member', href: `${addressOfMembers(storeId, baseUrl)}/${userId}`, title: 'The member' },
    ],
    embedded: [],
    properties: [
      { name: 'url', kind: 'secret', value: url },
      { name: 'user_id', kind: 'number', value: userId },
      { name: 'date_expires', kind: 'date', value: formatDate(expires, timeZone) },
    ],
  };
}
