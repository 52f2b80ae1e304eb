/** What became of a webhook's events: its deliveries (`statuses`) and the attempts at them (`logs`), newest first. */
import type { Tx } from '#database/pool.ts';
import { listing } from '#http/listing.ts';
import { type Operation } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { shardOf } from '#kernel/ids.ts';
import type { Comparisons, Listing } from '#kernel/listing.ts';
import { webhookOf, type WebhookDeps } from '../access.ts';
import { addressOfWebhook } from '../document.ts';
import type { WebhookRow } from '../queries.ts';
import { attemptDocument, deliveryDocument, LOG_PROPERTIES, STATUS_PROPERTIES } from './document.ts';
import { countAttempts, countDeliveries, listAttempts, listDeliveries, type Owner } from './queries.ts';

type History = {
  rel: 'statuses' | 'logs';
  title: string;
  properties: Comparisons;
  read: (tx: Tx, webhook: WebhookRow, owner: Owner, wanted: Listing) => Promise<{ items: Document[]; total: number }>;
};

const historyOf = ({ sql, search, baseUrl }: WebhookDeps, { rel, title, properties, read }: History): Operation =>
  listing({
    summary: `${title}, newest first, a page at a time`,
    rel,
    title,
    properties,
    handle: async (request) => {
      const webhook = await webhookOf(sql, request);
      const { id, storeId, epoch, heldUntil } = webhook;
      const owner = { shard: shardOf(id), storeId, id, epoch, heldUntil };
      const found = await search(storeId, request.listing, (tx) => read(tx, webhook, owner, request.listing));
      const back = addressOfWebhook(id, baseUrl);
      return { path: `${back}/${rel}`, links: [{ rel: 'webhook', href: back, title: 'The webhook' }], ...found };
    },
  });

export const createHistory = (deps: WebhookDeps): Record<'statuses' | 'logs', Operation> => {
  const { baseUrl } = deps;
  return {
    statuses: historyOf(deps, {
      rel: 'statuses',
      title: 'The deliveries of this webhook',
      properties: STATUS_PROPERTIES,
      read: async (tx, webhook, owner, wanted) => {
        const rows = await listDeliveries(tx, owner, wanted);
        const total = await countDeliveries(tx, owner, wanted);
        return { items: rows.map((row) => deliveryDocument(row, webhook, baseUrl)), total };
      },
    }),
    logs: historyOf(deps, {
      rel: 'logs',
      title: 'The attempts to deliver to this webhook',
      properties: LOG_PROPERTIES,
      read: async (tx, webhook, owner, wanted) => {
        const rows = await listAttempts(tx, owner, wanted);
        const total = await countAttempts(tx, owner, wanted);
        return { items: rows.map((row) => attemptDocument(row, webhook, baseUrl)), total };
      },
    }),
  };
};
