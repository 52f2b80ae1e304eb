import { formatDate } from '#hypermedia/date.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#kernel/listing.ts';
import type { StoreRow } from './queries.ts';

export const addressOfStore = (storeId: number, baseUrl: string): string => `${baseUrl}/stores/${storeId}`;

/** How each property of a store is compared. */
export const STORE_PROPERTIES = {
  id: 'number',
  name: 'text',
  domain: 'text',
  email: 'text',
  time_zone: 'text',
  date_created: 'date',
  date_modified: 'date',
} as const satisfies Comparisons;

/**
 * A store, its dates shown in its own time zone. `collections` are the names of what the platform publishes, each an
 * address below the store's and a relation that leads there.
 */
export const storeDocument = (
  store: StoreRow,
  shown: { baseUrl: string; collections: readonly string[] },
): Document => {
  const self = addressOfStore(store.id, shown.baseUrl);
  const below = (rel: string) => ({
    rel,
    href: `${self}/${rel}`,
    title: `All ${rel.replaceAll('_', ' ')} of this store`,
  });
  return {
    name: 'store',
    title: store.name,
    version: store.revision,
    links: [
      { rel: 'self', href: self, title: 'This store' },
      ...['webhooks', 'events', 'members', ...shown.collections].map(below),
    ],
    embedded: [],
    properties: [
      number('id', store.id),
      text('name', store.name),
      text('domain', store.domain),
      text('email', store.email),
      text('time_zone', store.timeZone),
      date('date_created', formatDate(store.dateCreated, store.timeZone)),
      date('date_modified', formatDate(store.dateModified, store.timeZone)),
    ],
  };
};
