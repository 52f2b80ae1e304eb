/** Represents an install of an app as a Document, for its developer: where the app is used, but not by whom. */
import { formatDate } from '#hypermedia/date.ts';
import { date, enumeration, number, text, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { reachesStore, type Principal } from '#core/principal.ts';
import { scopeNames, scopeOfGrants } from '../../scope.ts';
import { addressOfClient } from './document.ts';
import type { Install } from './installs-sql.ts';

/** The comparison of each property of an install, for filters and order. */
export const INSTALL_PROPERTIES = {
  id: 'number',
  store_id: 'number',
  store_name: 'text',
  scope: 'text',
  date_created: 'date',
  date_used: 'date',
  webhooks_total: 'none',
  webhooks_active: 'none',
  webhooks_failing: 'none',
} as const satisfies Comparisons;

export function addressOfInstalls(clientId: string, baseUrl: string): string {
  return `${addressOfClient(clientId, baseUrl)}/installs`;
}

/** `storeId`: the store if the reader can open it. */
function linksOf(storeId: number | null, clientId: string, baseUrl: string): Link[] {
  return [
    { rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app' },
    ...(storeId === null ? [] : [{ rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store' }]),
  ];
}

export function installDocument(
  install: Install,
  { clientId, principal, baseUrl }: { clientId: string; principal: Principal; baseUrl: string },
): Document {
  const { storeId } = install;
  return {
    name: 'install',
    title: install.storeName ?? 'A whole account',
    links: linksOf(storeId !== null && reachesStore(principal, storeId) ? storeId : null, clientId, baseUrl),
    embedded: [],
    properties: [
      number('id', install.id),
      number.orNull('store_id', storeId),
      text.orNull('store_name', install.storeName),
      enumeration('scope', scopeNames(scopeOfGrants(storeId, install.permissions)).join(' ')),
      date('date_created', formatDate(install.since, 'UTC')),
      date.orNull('date_used', install.lastUsed === null ? null : formatDate(install.lastUsed, 'UTC')),
      number('webhooks_total', install.webhooks),
      number('webhooks_active', install.active),
      number('webhooks_failing', install.failing),
    ],
  };
}
