import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import type { StoreRow } from './stores-sql.ts';

export function addressOfStore(storeId: number, baseUrl: string): string {
  return `${baseUrl}/stores/${storeId}`;
}

/** Properties of a store that lists can filter and order by, with the type of comparison. */
export const STORE_PROPERTIES = {
  id: 'number',
  name: 'text',
  domain: 'text',
  email: 'text',
  time_zone: 'text',
  date_created: 'date',
  date_modified: 'date',
  subscription_events: 'text',
  second_factor: 'text',
  is_sandbox: 'boolean',
} as const satisfies Comparisons;

/** A collection of published resources: `name` is its path segment and relation, `words` its display name. */
export type PublishedCollection = { name: string; words: string };

const ownCollections = ['webhooks', 'events', 'members'].map((name) => ({ name, words: name }));

/** Returns the Document of a store, with dates in its time zone. */
export function storeDocument(
  store: StoreRow,
  context: { baseUrl: string; collections: readonly PublishedCollection[] },
): Document {
  const self = addressOfStore(store.id, context.baseUrl);
  const linkOf = ({ name, words }: PublishedCollection) => ({
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
      { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this store' },
      ...[...ownCollections, ...context.collections].map(linkOf),
      ...(store.isSandbox
        ? [{ rel: 'sample_events', href: `${self}/sample_events`, title: 'Make sample events in this sandbox store' }]
        : []),
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
      // Last, because tables of stores show only the first columns.
      enumeration('subscription_events', store.subscriptionEvents),
      enumeration('second_factor', store.secondFactor),
      boolean('is_sandbox', store.isSandbox),
    ],
  };
}
