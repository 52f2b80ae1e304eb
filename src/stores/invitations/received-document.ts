import { formatDate } from '#hypermedia/date.ts';
import { date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import type { ReceivedInvitation } from './invitations-sql.ts';

/** Properties of an invitation that lists of its person can filter and order by, with the type of comparison. */
export const RECEIVED_PROPERTIES = {
  id: 'number',
  store_id: 'number',
  store_name: 'text',
  role: 'text',
  date_created: 'date',
  date_expires: 'date',
} as const satisfies Comparisons;

export function addressOfReceived(userId: number, baseUrl: string): string {
  return `${baseUrl}/users/${userId}/invitations`;
}

/** Returns the Document of an invitation for its person, who has no access to the store yet. */
export function receivedDocument(
  { id, storeId, storeName, role, dateCreated, dateExpires }: ReceivedInvitation,
  { userId, baseUrl }: { userId: number; baseUrl: string },
): Document {
  const list = addressOfReceived(userId, baseUrl);
  const self = `${list}/${id}`;
  return {
    name: 'received_invitation',
    title: storeName,
    // An invitation never changes.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: self, title: 'This invitation' },
      { rel: 'invitations', href: list, title: 'Your invitations', crumb: 'Invitations' },
      { rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Your account' },
      { rel: 'accept', href: `${self}/accept`, title: 'Join the store' },
    ],
    embedded: [],
    properties: [
      number('id', id),
      number('store_id', storeId),
      text('store_name', storeName),
      enumeration('role', role),
      date('date_created', formatDate(dateCreated, 'UTC')),
      date('date_expires', formatDate(dateExpires, 'UTC')),
    ],
  };
}
