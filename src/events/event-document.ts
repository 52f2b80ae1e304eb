import { addressOf, nameOf } from '#catalog/resource-document.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Comparisons } from '#core/listing.ts';
import type { PublishedEvent } from './publish/publish.ts';
import { isTest } from '#catalog/catalog.ts';

/** Properties of an event that lists can filter and order by, with the type of comparison. */
export const EVENT_PROPERTIES = {
  id: 'number',
  event: 'text',
  resource_type: 'text',
  resource_id: 'text',
  resource_version: 'number',
  date_created: 'date',
} as const satisfies Comparisons;

export function addressOfEvents(baseUrl: string, storeId: number): string {
  return `${baseUrl}/stores/${storeId}/events`;
}

/** Returns the URL of an event. */
export function addressOfEvent(event: { id: number }, baseUrl: string, storeId: number): string {
  return `${addressOfEvents(baseUrl, storeId)}/${event.id}`;
}

/**
 * Returns the Document of an event, with links to the latest version of its resource (`svc:resource`) and to the version that
 * it published (`svc:payload`). The links use the current base URL; only the payload keeps the base URL of the time of the
 * event.
 */
export function eventDocument(event: PublishedEvent, storeId: number, baseUrl: string): Document {
  const self = addressOfEvent(event, baseUrl, storeId);
  const about = { type: event.type, id: event.resourceId };
  const resource = addressOf({ baseUrl, storeId, ...about });
  const latest = { rel: 'resource', href: resource, title: 'Latest version of the resource' };
  return {
    name: 'event',
    // The column `event` exists already, so this column needs another heading.
    called: 'Event',
    title: `${nameOf(about)} ${event.action}`,
    links: [
      { rel: 'self', href: self, title: 'This event' },
      { rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'Store of this event', crumb: 'Store' },
      { rel: 'events', href: addressOfEvents(baseUrl, storeId), title: 'All events of the store', crumb: 'Events' },
      // The resource of a test event does not exist.
      ...(isTest(event.action) ? [] : [latest]),
      { rel: 'payload', href: `${self}/payload`, title: 'Resource as published by this event' },
      { rel: 'statuses', href: `${self}/statuses`, title: 'Deliveries of this event' },
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
}

export const EVENTS_TITLE = 'The events of this store';

/** Returns the Document of the events that an array published, in its order. */
export function publishedDocument(documents: readonly Document[], storeId: number, baseUrl: string): Document {
  return {
    name: 'events',
    links: [{ rel: 'self', href: addressOfEvents(baseUrl, storeId), title: EVENTS_TITLE }],
    embedded: [{ rel: 'events', documents }],
    properties: [],
  };
}
