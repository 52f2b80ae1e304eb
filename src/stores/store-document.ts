import { propertiesOf } from '#http/field-table.ts';
import type { Document } from '#hypermedia/document.ts';
import { storeFields } from './store-fields.ts';
import type { StoreRow } from './stores-sql.ts';

export function addressOfStore(storeId: number, baseUrl: string): string {
  return `${baseUrl}/stores/${storeId}`;
}

/** A collection of published resources: `name` is its path segment and relation, `words` its display name. */
export type PublishedCollection = { name: string; words: string };

const ownCollections = [
  ...['webhooks', 'events', 'members'].map((name) => ({ name, words: name })),
  { name: 'grants', words: 'connected apps' },
];

const describe = propertiesOf(storeFields);

/** Returns the Document of a store, with dates in its time zone. `isForPlatform`: with what only the platform can do. */
export function storeDocument(
  store: StoreRow,
  context: { baseUrl: string; collections: readonly PublishedCollection[]; isForPlatform?: boolean },
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
      ...(context.isForPlatform === true
        ? [
            { rel: 'load', href: `${self}/load`, title: 'Load history' },
            { rel: 'links', href: `${self}/links`, title: 'Make a link to the pages of this store' },
          ]
        : []),
      ...(store.isSandbox
        ? [{ rel: 'sample_events', href: `${self}/sample_events`, title: 'Make sample events in this sandbox store' }]
        : []),
    ],
    embedded: [],
    properties: describe(store, store.timeZone, {}),
  };
}
