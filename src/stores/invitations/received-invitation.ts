/** An invitation as its person reads it: its properties, and the Document. */
import { comparisonsOf, propertiesOf, type Fields } from '#http/field-table.ts';
import type { Document } from '#hypermedia/document.ts';
import { memberFields } from '../members/member.ts';
import type { ReceivedInvitation } from './invitations-sql.ts';

export const receivedFields = {
  id: { kind: 'number' },
  store_id: { kind: 'number' },
  store_name: { kind: 'text', from: 'sql' },
  role: { kind: 'enumeration', choices: memberFields.role.choices },
  date_created: { kind: 'date' },
  date_expires: { kind: 'date' },
} as const satisfies Fields;

export const RECEIVED_PROPERTIES = comparisonsOf(receivedFields);
const describe = propertiesOf(receivedFields);

export function addressOfReceived(userId: number, baseUrl: string): string {
  return `${baseUrl}/users/${userId}/invitations`;
}

/** Returns the Document of an invitation for its person, who has no access to the store yet. */
export function receivedDocument(
  invitation: ReceivedInvitation,
  { userId, baseUrl }: { userId: number; baseUrl: string },
): Document {
  const { id, storeName, dateCreated } = invitation;
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
    properties: describe(invitation, 'UTC', {}),
  };
}
