import { formatDate } from '#hypermedia/date.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { isInPerson, reachesAccount, type Principal } from '#core/principal.ts';
import type { UserRow } from '../accounts-sql.ts';

/** How each property of a user is compared. */
export const USER_PROPERTIES = { id: 'number', email: 'text', date_created: 'date' } as const satisfies Comparisons;

export const addressOfUser = (id: number, baseUrl: string): string => `${baseUrl}/users/${id}`;

/**
 * A user, for the platform or for whom it is about. No app is told an address: people let it work for them, not write to
 * them.
 */
export const userDocument = (
  { id, email, dateCreated }: UserRow,
  { principal, baseUrl }: { principal: Principal; baseUrl: string },
): Document => {
  const self = addressOfUser(id, baseUrl);
  const shown = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'user',
    title: shown ?? `User ${id}`,
    // Nothing that is shown of a user changes.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: self, title: 'This user' },
      { rel: 'stores', href: `${baseUrl}/stores`, title: 'The stores that your token reaches' },
      { rel: 'grants', href: `${self}/grants`, title: 'The apps that this user has let in' },
      ...(reachesAccount(principal, id)
        ? [{ rel: 'clients', href: `${self}/clients`, title: 'The apps that this user has made' }]
        : []),
    ],
    embedded: [],
    properties: [number('id', id), text('email', shown), date('date_created', formatDate(dateCreated, 'UTC'))],
  };
};
