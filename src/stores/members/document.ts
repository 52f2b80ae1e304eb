import { formatDate } from '#hypermedia/date.ts';
import { date, enumeration, number, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#kernel/listing.ts';
import { reachesUser, type Principal } from '#kernel/principal.ts';
import { addressOfStore } from '../document.ts';
import type { MemberRow } from './queries.ts';

/** How each property of a member is compared. */
export const MEMBER_PROPERTIES = {
  user_id: 'number',
  role: 'text',
  date_created: 'date',
} as const satisfies Comparisons;

export const addressOfMembers = (storeId: number, baseUrl: string): string =>
  `${addressOfStore(storeId, baseUrl)}/members`;

/** A member: who they are stands on the user's own page, for those who may see it. */
export const memberDocument = (
  { storeId, userId, role, dateCreated, timeZone }: MemberRow,
  { principal, baseUrl }: { principal: Principal; baseUrl: string },
): Document => {
  const members = addressOfMembers(storeId, baseUrl);
  return {
    name: 'member',
    title: `User ${userId}`,
    version: role,
    links: [
      { rel: 'self', href: `${members}/${userId}`, title: 'This member' },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store of this member' },
      { rel: 'members', href: members, title: 'All members of the store' },
      ...(reachesUser(principal, userId)
        ? [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'The person' }]
        : []),
    ],
    embedded: [],
    properties: [
      number('user_id', userId),
      enumeration('role', role),
      date('date_created', formatDate(dateCreated, timeZone)),
    ],
  };
};
