/** The history of a webhook: its deliveries (`statuses`) and their attempts (`logs`), newest first. */
import { allEvents } from '#catalog/catalog.ts';
import type { Tx } from '#db/pool.ts';
import { listing, type SearchedBy } from '#http/listing.ts';
import { type Operation } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Comparisons, Listing } from '#core/listing.ts';
import { READ_SCOPES, seesHistory, webhookOf, type WebhookDeps } from '../access.ts';
import { addressOfWebhook, breadcrumbLinks } from '../document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import { attemptDocument, deliveryDocument, DELIVERY_STATES, LOG_PROPERTIES, STATUS_PROPERTIES } from './document.ts';
import { listAttempts } from './attempts-sql.ts';
import { listDeliveries } from './deliveries-sql.ts';
import type { Owner } from './history-sql.ts';
import { OUTCOME_LABELS } from './reason.ts';
import { createReadDelivery, ownerOf } from './delivery.ts';
import { createResend } from './resend.ts';

type History = {
  rel: 'statuses' | 'logs';
  title: string;
  properties: Comparisons;
  searchedBy: SearchedBy;
  read: (tx: Tx, webhook: WebhookRow, owner: Owner, query: Listing) => Promise<{ items: Document[]; total: number }>;
};

const historyOf = (
  { sql, search, baseUrl }: WebhookDeps,
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
      return { path, links: breadcrumbLinks(webhook, baseUrl), timeZone, ...found };
    },
  });

export function createHistory(deps: WebhookDeps): Record<'statuses' | 'status' | 'resend' | 'logs', Operation> {
  const { baseUrl } = deps;
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
