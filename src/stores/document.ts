import { formatDate } from '#hypermedia/date.ts';
import { date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import type { StoreRow } from './stores-sql.ts';

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
  subscription_events: 'text',
} as const satisfies Comparisons;

/** What the platform publishes: its name in an address and as a relation, and how people call it. */
export type PublishedCollection = { name: string; words: string };

const own = ['webhooks', 'events', 'members'].map((name) => ({ name, words: name }));

/** A store, its dates shown in its own time zone. */
export const storeDocument = (
  store: StoreRow,
  shown: { baseUrl: string; collections: readonly PublishedCollection[] },
): Document => {
  const self = addressOfStore(store.id, shown.baseUrl);
  const below = ({ name, words }: PublishedCollection) => ({
    rel: name,
    href: `${self}/${name}`,
    title: `All ${words} of this store`,
  });
  return {
    name: 'store',
    title: store.name,
    version: store.revision,
    links: [
      { rel: 'self', href: self, title: 'This store' },
      { rel: 'overview', href: `${self}/overview`, title: 'The overview of this store' },
      ...[...own, ...shown.collections].map(below),
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
      // Last, because a table of stores has no room for all, and this one is the least asked for.
      enumeration('subscription_events', store.subscriptionEvents),
    ],
  };
};
