import { addressOf, nameOf } from '#catalog/document.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Comparisons } from '#core/listing.ts';
import type { PublishedEvent } from './publish/publish.ts';
import { isTest } from '#catalog/sample.ts';

/** How each property of an event is compared. */
export const EVENT_PROPERTIES = {
  id: 'number',
  event: 'text',
  resource_type: 'text',
  resource_id: 'text',
  resource_version: 'number',
  date_created: 'date',
} as const satisfies Comparisons;

export const addressOfEvents = (baseUrl: string, storeId: number): string => `${baseUrl}/stores/${storeId}/events`;

/** Where an event is read. */
export const addressOfEvent = (event: { id: number }, baseUrl: string, storeId: number): string =>
  `${addressOfEvents(baseUrl, storeId)}/${event.id}`;

/**
 * An event; its resource stands behind `svc:resource` (the latest version) and `svc:payload` (as it was then). Its links
 * are built from the base URL of today: what alone keeps that of its day is the representation that it carried.
 */
export const eventDocument = (event: PublishedEvent, storeId: number, baseUrl: string): Document => {
  const self = addressOfEvent(event, baseUrl, storeId);
  const about = { type: event.type, id: event.resourceId };
  const resource = addressOf({ baseUrl, storeId, ...about });
  const latest = { rel: 'resource', href: resource, title: 'The latest version of what it is about' };
  return {
    name: 'event',
    // Beside the property of that name, in a table.
    called: 'What happened',
    title: `${nameOf(about)} ${event.action}`,
    links: [
      { rel: 'self', href: self, title: 'This event' },
      { rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store it happened in', crumb: 'Store' },
      { rel: 'events', href: addressOfEvents(baseUrl, storeId), title: 'All events of the store', crumb: 'Events' },
      // What was made up is nowhere.
      ...(isTest(event.action) ? [] : [latest]),
      { rel: 'payload', href: `${self}/payload`, title: 'What it is about, as it was then' },
      { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this event' },
    ],
    embedded: [],
    properties: [
      number('id', event.id),
      text('event', `${event.type}/${event.action}`),
      text('resource_type', event.type),
      text('resource_id', event.resourceId),
      number('resource_version', event.version),
      date('date_created', formatDate(event.dateCreated, event.timeZone)),
    ],
  };
};
