/** The deliveries of one event, and those of a store, to all webhooks: "what happened to this order?" without knowing the webhook. */
import { zoneOf } from '#catalog/resource-access.ts';
import { addressOfEvent, addressOfEvents } from '#events/event-document.ts';
import { eventOf } from '#events/operations.ts';
import type { Link } from '#hypermedia/document.ts';
import { listDeliveriesOfEvent, readOwners } from './statuses-sql.ts';
import { allEvents } from '#catalog/catalog.ts';
import type { Search } from '#db/search.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { listing } from '#http/list-operation.ts';
import type { Operation } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { addressOfStore } from '../webhook-document.ts';
import { listDeliveriesOfStore } from './deliveries-sql.ts';
import { deliveryDocument, DELIVERY_STATES, STATUS_PROPERTIES } from './history-documents.ts';
import { appOf, READ_SCOPES } from '../webhook-access.ts';

type Deps = Pick<Runtime, 'sql' | 'config'> & { search: Search };

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

export function createEventStatuses({ sql, search, config: { baseUrl } }: Deps): Operation {
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

export function createStoreStatuses({ sql, search, config: { baseUrl } }: Deps): Operation {
  return listing({
    summary: 'The deliveries of this store to all its webhooks, newest first, paged',
    scopes: READ_SCOPES,
    title: 'The deliveries of this store',
    rel: 'statuses',
    properties: STATUS_PROPERTIES,
    zone: (request) => zoneOf(sql, request),
    searchedBy: {
      status: DELIVERY_STATES,
      event: allEvents(),
      resource_id: null,
      webhook_id: null,
      response_code: null,
      response_body: 'contains',
      date_created: null,
    },
    handle: async (request) => {
      const store = storeOfAddress(request);
      const { storeId } = store;
      const found = await readOwners(sql, { ...store, app: appOf(request.principal) });
      if (found === undefined) throw notFound('store');
      const { timeZone, owners } = found;
      const { rows, total } = await search(storeId, request.listing, (tx) =>
        listDeliveriesOfStore(tx, store, owners, request.listing),
      );
      const address = addressOfStore(storeId, baseUrl);
      return {
        path: `${address}/statuses`,
        items: rows.map((row) => deliveryDocument(row, { id: row.webhookId, storeId, timeZone }, baseUrl)),
        total,
        timeZone,
        of: { storeId, webhookId: null },
        links: [{ rel: 'store', href: address, title: 'The store', crumb: 'Store' }],
      };
    },
  });
}
