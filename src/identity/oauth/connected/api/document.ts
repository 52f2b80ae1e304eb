/** Represents a connected app as a Document. */
import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { reachesAccount, reachesStore, type Principal } from '#core/principal.ts';
import { addressOfClient } from '../../clients/api/document.ts';
import { scopeNames, scopeOfGrants } from '../../scope.ts';
import type { ConnectedApp } from '../connected-sql.ts';

/** The comparison of each property of a grant, for filters and order. */
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
  webhooks_total: 'none',
  webhooks_active: 'none',
} as const satisfies Comparisons;

export function addressOfGrants(userId: number, baseUrl: string): string {
  return `${baseUrl}/users/${userId}/grants`;
}

type Shown = { id: number; userId: number; principal: Principal; baseUrl: string };

function linksOf({ storeId, storeName, clientId, ownerId }: ConnectedApp, shown: Shown): Link[] {
  const { id, userId, principal, baseUrl } = shown;
  const links: Link[] = [
    { rel: 'self', href: `${baseUrl}/grants/${id}`, title: 'This connected app' },
    { rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'The user who connected it' },
    { rel: 'grants', href: addressOfGrants(userId, baseUrl), title: 'All connected apps of this user' },
  ];
  if (storeId !== null && storeName !== null && reachesStore(principal, storeId))
    links.push({ rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store it can access' });
  if (principal.scope === 'platform' || (ownerId !== null && reachesAccount(principal, ownerId)))
    links.push({ rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app' });
  return links;
}

/**
 * Returns the Document of a connected app: one per store and one for the whole account, even with several grants. `id` is
 * the latest grant's, unless the request named another.
 */
export function grantDocument(row: ConnectedApp, shown: Shown): Document {
  return {
    name: 'grant',
    title: row.name,
    // A grant never changes until it ends.
    version: shown.id,
    links: linksOf(row, shown),
    embedded: [],
    properties: [
      number('id', shown.id),
      text('client_id', row.clientId),
      text('name', row.name),
      text.orNull('company', row.company),
      boolean('is_verified', row.isVerified),
      enumeration('scope', scopeNames(scopeOfGrants(row.storeId, row.permissions)).join(' ')),
      number.orNull('store_id', row.storeId),
      date('date_created', formatDate(row.since, 'UTC')),
      date.orNull('date_used', row.lastUsed === null ? null : formatDate(row.lastUsed, 'UTC')),
      number('webhooks_total', row.webhooks.total),
      number('webhooks_active', row.webhooks.active),
    ],
  };
}
