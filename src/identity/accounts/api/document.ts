/** Represents a user as a Document. */
import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { isInPerson, isPerson, reachesAccount, type Principal } from '#core/principal.ts';
import type { UserRow } from '../accounts-sql.ts';

/** The comparison of each property of a user, for filters and order. */
export const USER_PROPERTIES = {
  id: 'number',
  email: 'text',
  is_email_verified: 'boolean',
  date_created: 'date',
} as const satisfies Comparisons;

export function addressOfUser(id: number, baseUrl: string): string {
  return `${baseUrl}/users/${id}`;
}

/**
 * Returns a user's Document. Only the platform and the user in person see the e-mail address: the access granted to an app
 * does not include permission to contact the user.
 */
export function userDocument(
  { id, email, isEmailVerified, dateCreated }: UserRow,
  { principal, baseUrl, allowsSandboxes }: { principal: Principal; baseUrl: string; allowsSandboxes: boolean },
): Document {
  const self = addressOfUser(id, baseUrl);
  const shown = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'user',
    title: shown ?? `User ${id}`,
    // The displayed properties of a user never change.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: self, title: 'This user' },
      { rel: 'stores', href: `${baseUrl}/stores`, title: 'The stores that your token can access' },
      { rel: 'grants', href: `${self}/grants`, title: 'The apps connected to this user' },
      ...(isPerson(principal, id)
        ? [{ rel: 'invitations', href: `${self}/invitations`, title: 'Your invitations' }]
        : []),
      ...(reachesAccount(principal, id)
        ? [{ rel: 'clients', href: `${self}/clients`, title: 'The apps created by this user' }]
        : []),
      ...(reachesAccount(principal, id) && allowsSandboxes
        ? [{ rel: 'sandbox_store', href: `${self}/sandbox_store`, title: 'Create the sandbox store of this user' }]
        : []),
    ],
    embedded: [],
    properties: [
      number('id', id),
      text.orNull('email', shown),
      boolean('is_email_verified', isEmailVerified),
      date('date_created', formatDate(dateCreated, 'UTC')),
    ],
  };
}
