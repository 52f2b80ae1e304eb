import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, url, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { addressOfStore } from '../document.ts';
import { addressOfMembers } from '../members/document.ts';
import type { InvitationRow } from './invitations-sql.ts';

/** Properties of an invitation that lists can filter and order by, with the type of comparison. */
export const INVITATION_PROPERTIES = {
  id: 'number',
  email: 'text',
  role: 'text',
  state: 'none',
  is_mailed: 'boolean',
  link: 'none',
  created_by: 'number',
  date_created: 'date',
  date_expires: 'date',
} as const satisfies Comparisons;

export function addressOfInvitations(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/invitations`;
}

/** Returns the Document of an invitation. `link` is not null only in the response that creates the invitation. */
export function invitationDocument(
  { id, storeId, email, role, isMailed, createdBy, dateCreated, dateExpires, timeZone }: InvitationRow,
  { baseUrl, link }: { baseUrl: string; link: string | null },
): Document {
  const invitations = addressOfInvitations(storeId, baseUrl);
  return {
    name: 'invitation',
    title: email ?? 'Anyone with the link',
    // An invitation never changes.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: `${invitations}/${id}`, title: 'This invitation' },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store of this invitation', crumb: 'Store' },
      { rel: 'members', href: addressOfMembers(storeId, baseUrl), title: 'The members of the store', crumb: 'Members' },
      { rel: 'invitations', href: invitations, title: 'All invitations to the store', crumb: 'Invitations' },
    ],
    embedded: [],
    properties: [
      number('id', id),
      text.orNull('email', email),
      enumeration('role', role),
      // An accepted, declined or revoked invitation is deleted.
      enumeration('state', 'pending'),
      boolean('is_mailed', isMailed),
      url.orNull('link', link),
      number.orNull('created_by', createdBy),
      date('date_created', formatDate(dateCreated, timeZone)),
      date('date_expires', formatDate(dateExpires, timeZone)),
    ],
  };
}
