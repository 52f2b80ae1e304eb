/** The history of a webhook: its deliveries (`statuses`) and their attempts (`logs`), newest first. */
import { closedObject } from '#http/inputs.ts';
import { allEvents, isTest } from '#catalog/catalog.ts';
import { listing, type SearchedBy } from '#http/list-operation.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import type { Comparisons, Listing } from '#core/listing.ts';
import {
  CHANGE_SCOPES,
  READ_SCOPES,
  appOf,
  seesHistory,
  sendingWebhookOf,
  type WebhookDeps,
  webhookOf,
  withheldFrom,
  lockWebhookOf,
} from '../webhook-access.ts';
import { addressOfStore, addressOfWebhook, breadcrumbLinks } from '../webhook-document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import {
  DELIVERY_STATES,
  LOG_PROPERTIES,
  OUTCOME_LABELS,
  STATUS_PROPERTIES,
  addressOfDelivery,
  attemptDocument,
  deliveryDocument,
} from './history-documents.ts';
import type { DeliveryRow, Owner } from './history-sql.ts';
import { listAttempts, listDeliveriesOfEvent, readOwners } from './statuses-sql.ts';
import { listDeliveries, listDeliveriesOfStore } from './deliveries-sql.ts';
import { createReadDelivery, ownerOf, deliveryOf, deliveryWith } from './delivery-details.ts';
import type { Tx } from '#db/pool.ts';
import type { Committed } from '#events/publish/rows.ts';
import { findPending, insertResend } from '#events/replay/replay-sql.ts';
import { beginning } from '#http/idempotency.ts';
import { formatDate } from '#hypermedia/date.ts';
import { shardOf } from '#core/ids.ts';
import { conflict, notFound } from '#core/problem.ts';
import { zoneOf } from '#catalog/resource-operations.ts';
import { addressOfEvent, addressOfEvents, eventOf } from '#events/operations.ts';
import type { Search } from '#db/search.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { storeOfAddress } from '#core/principal.ts';

type History = {
  rel: 'statuses' | 'logs';
  title: string;
  properties: Comparisons;
  searchedBy: SearchedBy;
  read: (tx: Tx, webhook: WebhookRow, owner: Owner, query: Listing) => Promise<{ items: Document[]; total: number }>;
};

const historyOf = (
  { sql, search, config: { baseUrl, stores } }: WebhookDeps,
  { rel, title, properties, searchedBy, read }: History,
): Operation =>
  listing({
    summary: `${title}, newest first, paged`,
    scopes: READ_SCOPES,
    rel,
    title,
    properties,
    searchedBy,
    zone: async (request) => (await webhookOf(sql, request)).timeZone,
    handle: async (request) => {
      const webhook = await webhookOf(sql, request);
      const { id, storeId, timeZone } = webhook;
      const owner = ownerOf(webhook);
      const found = seesHistory(request.principal, webhook)
        ? await search(storeId, request.listing, (tx) => read(tx, webhook, owner, request.listing))
        : { items: [], total: 0 };
      const path = `${addressOfWebhook(id, baseUrl)}/${rel}`;
      const of = { storeId, webhookId: id };
      const withheld = withheldFrom(storeId, stores);
      return { path, links: breadcrumbLinks(webhook, baseUrl), timeZone, withheld, of, ...found };
    },
  });

export function createHistory(deps: WebhookDeps): Record<'statuses' | 'status' | 'resend' | 'logs', Operation> {
  const { baseUrl } = deps.config;
  return {
    statuses: historyOf(deps, {
      rel: 'statuses',
      title: 'The deliveries of this webhook',
      properties: STATUS_PROPERTIES,
      searchedBy: {
        status: DELIVERY_STATES,
        event: allEvents(),
        resource_id: null,
        response_code: null,
        response_body: 'contains',
        date_created: null,
      },
      read: async (tx, webhook, owner, query) => {
        const { rows, total } = await listDeliveries(tx, owner, query);
        return { items: rows.map((row) => deliveryDocument(row, webhook, baseUrl)), total };
      },
    }),
    status: createReadDelivery(deps),
    resend: createResend(deps),
    logs: historyOf(deps, {
      rel: 'logs',
      title: 'The attempts of this webhook',
      properties: LOG_PROPERTIES,
      searchedBy: { outcome: OUTCOME_LABELS, response_code: null, event: allEvents(), date_created: null },
      read: async (tx, webhook, owner, query) => {
        const { rows, total } = await listAttempts(tx, owner, query);
        return { items: rows.map((row) => attemptDocument(row, webhook, baseUrl)), total };
      },
    }),
  };
}

/** Throws a 409 if the webhook cannot send. */
function checkCanSend({ isActive, isHeld, url }: WebhookRow): void {
  if (!isActive) throw conflict('inactive', 'The webhook is disabled: enable it first');
  if (url === null && !isHeld) throw conflict('no_url', 'The webhook has no url: set url first');
}

/**
 * Bounds the search to about 10 ms under the lock of the webhook. A duplicate behind a longer backlog is no worse than a retry.
 */
const PENDING_CHECKED_MAX = 10_000;

/** Throws a 409 if a delivery of the event is pending, since both would reach the endpoint. `Location` is its URL. */
async function checkNotPending(
  tx: Tx,
  webhook: WebhookRow,
  { requested, baseUrl }: { requested: DeliveryRow; baseUrl: string },
): Promise<void> {
  const { id: webhookId, epoch, timeZone } = webhook;
  const key = { shard: shardOf(webhookId), webhookId, eventId: requested.eventId, epoch };
  const id = requested.status === 'pending' ? requested.id : await findPending(tx, key, PENDING_CHECKED_MAX);
  if (id === undefined) return;
  const pending = await deliveryWith(tx, webhook, id);
  const next = pending?.dateNext ? `; next attempt at ${formatDate(pending.dateNext, timeZone)}` : '';
  const Location = addressOfDelivery(id, webhook, baseUrl);
  throw conflict('already_pending', `A delivery of this event to the webhook is already pending${next}`, { Location });
}

const GONE = 'The event was erased or has expired: there is nothing to send';
const SAMPLE = 'This was a test of the webhook, which cannot be resent: send another one by its action "test"';

/** Creates the new delivery under the lock of the webhook, which serializes concurrent resends and disabling. */
async function resend(
  tx: Tx,
  baseUrl: string,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
): Promise<{ webhook: WebhookRow; made: Committed }> {
  const webhook = await lockWebhookOf(tx, request);
  const requested = await deliveryOf(tx, webhook, request);
  const { id: deliveryId, eventId, action } = requested;
  if (isTest(action)) throw conflict('is_test', SAMPLE);
  checkCanSend(webhook);
  await checkNotPending(tx, webhook, { requested, baseUrl });
  const { id: webhookId } = webhook;
  const made = await insertResend(tx, {
    shard: shardOf(webhookId),
    webhookId,
    eventId,
    deliveryId,
    now: request.now,
  });
  if (made === undefined) throw conflict('event_gone', GONE);
  return { webhook, made };
}

function createResend({ sql, config: { baseUrl }, onResent }: WebhookDeps): Operation {
  return beginning({
    title: 'Send it again',
    summary:
      'Sends the same event to the same webhook again, even if it arrived: a new delivery, whose attempts count from 1',
    scopes: CHANGE_SCOPES,
    input: closedObject({}),
    admit: async (request) => void (await deliveryOf(sql, await sendingWebhookOf(sql, request), request)),
    prepare: async () => undefined,
    make: async (tx, request) => {
      const { webhook, made } = await resend(tx, baseUrl, request);
      const row = await deliveryWith(tx, webhook, made.deliveryId);
      if (row === undefined) throw new Error(`Delivery ${made.deliveryId} not found after its insert`);
      return {
        document: deliveryDocument(row, webhook, baseUrl),
        location: addressOfDelivery(row.id, webhook, baseUrl),
        made: async () => onResent(made),
      };
    },
  });
}

type Deps = Pick<Runtime, 'sql' | 'config'> & { search: Search };

const eventLinks = (eventId: number, storeId: number, baseUrl: string): Link[] => [
  { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' },
  { rel: 'events', href: addressOfEvents(baseUrl, storeId), title: 'All events of the store', crumb: 'Events' },
  {
    rel: 'event',
    href: addressOfEvent({ id: eventId }, baseUrl, storeId),
    title: 'The event',
    crumb: `Event ${eventId}`,
  },
];

/** Creates the list of the deliveries of one event to all webhooks. */
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
      return { path: `${back}/statuses`, items, total, timeZone, links: eventLinks(eventId, storeId, baseUrl) };
    },
  });
}

/** Creates the list of the deliveries of a store to all webhooks: "what happened to this order?" without knowing the webhook. */
export function createStoreStatuses({ sql, search, config: { baseUrl, stores } }: Deps): Operation {
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
        withheld: withheldFrom(storeId, stores),
        of: { storeId, webhookId: null },
        links: [{ rel: 'store', href: address, title: 'The store', crumb: 'Store' }],
      };
    },
  });
}
