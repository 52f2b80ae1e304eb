import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { reachesAccount, reachesStore, type Principal } from '#core/principal.ts';
import { addressOfClient } from '../../clients/api/document.ts';
import type { ConnectedRow } from '../connected-sql.ts';

/** How each property of a grant is compared. */
export const GRANT_PROPERTIES = {
  id: 'number',
  client_id: 'text',
  name: 'text',
  company: 'text',
  is_verified: 'boolean',
  scope: 'text',
  store_id: 'number',
  date_created: 'date',
  date_used: 'date',
} as const satisfies Comparisons;

export const addressOfGrants = (userId: number, baseUrl: string): string => `${baseUrl}/users/${userId}/grants`;

type Shown = { id: number; userId: number; principal: Principal; baseUrl: string };

const linksOf = ({ storeId, storeName, clientId, ownerId }: ConnectedRow, shown: Shown): Link[] => {
  const { id, userId, principal, baseUrl } = shown;
  const links: Link[] = [
    { rel: 'self', href: `${baseUrl}/grants/${id}`, title: 'This connected app' },
    { rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Who let it in' },
    { rel: 'grants', href: addressOfGrants(userId, baseUrl), title: 'All apps that they have let in' },
  ];
  if (storeId !== null && storeName !== null && reachesStore(principal, storeId))
    links.push({ rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'Where it may work' });
  if (principal.scope === 'platform' || (ownerId !== null && reachesAccount(principal, ownerId)))
    links.push({ rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app' });
  return links;
};

/**
 * An app that somebody has let in: one for each store, however often they allowed it, and one for the whole account. `id`
 * is that of a grant, the latest unless the caller named another.
 */
export const grantDocument = (row: ConnectedRow, shown: Shown): Document => ({
  name: 'grant',
  title: row.name,
  // A grant stays as it was given until it ends.
  version: shown.id,
  links: linksOf(row, shown),
  embedded: [],
  properties: [
    number('id', shown.id),
    text('client_id', row.clientId),
    text('name', row.name),
    text('company', row.company),
    boolean('is_verified', row.isVerified),
    enumeration('scope', row.storeId === null ? 'user_full_access' : 'store_full_access'),
    number('store_id', row.storeId),
    date('date_created', formatDate(row.since, 'UTC')),
    date('date_used', row.lastUsed === null ? null : formatDate(row.lastUsed, 'UTC')),
  ],
});
