/** The deliveries of one event to all webhooks of the store. */
import { zoneOf } from '#catalog/access.ts';
import type { Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import { addressOfEvent, addressOfEvents } from '#events/document.ts';
import { eventOf } from '#events/operations.ts';
import { listing } from '#http/listing.ts';
import { type Operation } from '#http/operation.ts';
import type { Link } from '#hypermedia/document.ts';
import { notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { addressOfStore } from '../document.ts';
import { deliveryDocument, DELIVERY_STATES, STATUS_PROPERTIES } from './document.ts';
import { listDeliveriesOfEvent } from './event-statuses-sql.ts';
import { appOf, READ_SCOPES } from '../access.ts';

const breadcrumbLinks = (eventId: number, storeId: number, baseUrl: string): Link[] => [
  { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' },
  { rel: 'events', href: addressOfEvents(baseUrl, storeId), title: 'All events of the store', crumb: 'Events' },
  {
    rel: 'event',
    href: addressOfEvent({ id: eventId }, baseUrl, storeId),
    title: 'The event',
    crumb: `Event ${eventId}`,
  },
];

export function createEventStatuses({
  sql,
  search,
  baseUrl,
}: {
  sql: Sql;
  search: Search;
  baseUrl: string;
}): Operation {
  return listing({
    summary: 'The deliveries of this event to all webhooks, newest first, paged',
    scopes: READ_SCOPES,
    title: 'The deliveries of this event',
    rel: 'statuses',
    properties: STATUS_PROPERTIES,
    zone: (request) => zoneOf(sql, request),
    searchedBy: { status: DELIVERY_STATES },
    handle: async (request) => {
      const { shard, storeId } = storeOfAddress(request);
      const { id: eventId } = await eventOf(sql, request, storeId);
      const key = { shard, storeId, eventId, app: appOf(request.principal) };
      const found = await search(storeId, request.listing, (tx) => listDeliveriesOfEvent(tx, key, request.listing));
      if (found === undefined) throw notFound('event');
      const { timeZone, total, rows } = found;
      const back = addressOfEvent({ id: eventId }, baseUrl, storeId);
      const items = rows.map((row) =>
        deliveryDocument(row, { id: row.webhookId, storeId, timeZone, isGone: row.isWebhookGone }, baseUrl),
      );
      return { path: `${back}/statuses`, items, total, timeZone, links: breadcrumbLinks(eventId, storeId, baseUrl) };
    },
  });
}
