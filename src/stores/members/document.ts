import { formatDate } from '#hypermedia/date.ts';
import { date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { isInPerson, reachesUser, type Principal } from '#core/principal.ts';
import { addressOfStore } from '../document.ts';
import type { MemberRow } from './members-sql.ts';

/** How each property of a member is compared. */
export const MEMBER_PROPERTIES = {
  user_id: 'number',
  // An app that could search by it would be told it.
  email: 'none',
  role: 'text',
  date_created: 'date',
} as const satisfies Comparisons;

export const addressOfMembers = (storeId: number, baseUrl: string): string =>
  `${addressOfStore(storeId, baseUrl)}/members`;

/** A member. The people of a store know each other by their addresses; no app is told one. */
export const memberDocument = (
  { storeId, userId, email, role, dateCreated, timeZone }: MemberRow,
  { principal, baseUrl }: { principal: Principal; baseUrl: string },
): Document => {
  const members = addressOfMembers(storeId, baseUrl);
  const shown = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'member',
    title: shown ?? `User ${userId}`,
    version: role,
    links: [
      { rel: 'self', href: `${members}/${userId}`, title: 'This member' },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store of this member', crumb: 'Store' },
      { rel: 'members', href: members, title: 'All members of the store', crumb: 'Members' },
      ...(reachesUser(principal, userId)
        ? [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'The person' }]
        : []),
    ],
    embedded: [],
    properties: [
      number('user_id', userId),
      text('email', shown),
      enumeration('role', role),
      date('date_created', formatDate(dateCreated, timeZone)),
    ],
  };
};
