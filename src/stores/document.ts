import { formatDate } from '#hypermedia/date.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import type { StoreRow } from './queries.ts';

/** A store, its dates shown in its own time zone. */
export const storeDocument = (store: StoreRow, baseUrl: string): Document => {
  const self = `${baseUrl}/stores/${store.id}`;
  return {
    name: 'store',
    links: [
      { rel: 'self', href: self, title: 'This store' },
      { rel: 'webhooks', href: `${self}/webhooks`, title: 'All webhooks of this store' },
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
