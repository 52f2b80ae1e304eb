import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { isInPerson, reachesUser, type Principal } from '#core/principal.ts';
import { addressOfStore } from '../document.ts';
import type { MemberRow } from './members-sql.ts';

/** Properties of a member that lists can filter and order by, with the type of comparison. */
export const MEMBER_PROPERTIES = {
  user_id: 'number',
  // Filters would reveal e-mail addresses to apps.
  email: 'none',
  role: 'text',
  is_email_verified: 'none',
  date_created: 'date',
} as const satisfies Comparisons;

export function addressOfMembers(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/members`;
}

/** Returns the Document of a member. Users see each other's e-mail addresses; apps see none. */
export function memberDocument(
  { storeId, userId, email, isEmailVerified, role, dateCreated, timeZone }: MemberRow,
  { principal, baseUrl }: { principal: Principal; baseUrl: string },
): Document {
  const members = addressOfMembers(storeId, baseUrl);
  const visibleEmail = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'member',
    title: visibleEmail ?? `User ${userId}`,
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
      text.orNull('email', visibleEmail),
      boolean('is_email_verified', isEmailVerified),
      enumeration('role', role),
      date('date_created', formatDate(dateCreated, timeZone)),
    ],
  };
}
