/** The deliveries of a store to all its webhooks: "what happened to this order?" without knowing the webhook. */
import { zoneOf } from '#catalog/access.ts';
import { allEvents } from '#catalog/catalog.ts';
import type { Search } from '#db/search.ts';
import type { Sql } from '#db/pool.ts';
import { listing } from '#http/listing.ts';
import type { Operation } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { addressOfStore } from '../document.ts';
import { listDeliveriesOfStore } from './deliveries-sql.ts';
import { deliveryDocument, DELIVERY_STATES, STATUS_PROPERTIES } from './document.ts';
import { readOwners } from './store-statuses-sql.ts';
import { appOf, READ_SCOPES } from '../access.ts';

export function createStoreStatuses({
  sql,
  search,
  baseUrl,
}: {
  sql: Sql;
  search: Search;
  baseUrl: string;
}): Operation {
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
        links: [{ rel: 'store', href: address, title: 'The store', crumb: 'Store' }],
      };
    },
  });
}
