/** What became of a webhook's events: its deliveries (`statuses`) and the attempts at them (`logs`), newest first. */
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { collection, readPage, type Page } from '#hypermedia/page.ts';
import { shardOf } from '#kernel/ids.ts';
import { webhookOf, type WebhookDeps } from '../access.ts';
import { addressOfWebhook } from '../document.ts';
import type { WebhookRow } from '../queries.ts';
import { attemptDocument, deliveryDocument } from './document.ts';
import { countAttempts, countDeliveries, listAttempts, listDeliveries, type Owner } from './queries.ts';

type History = {
  rel: 'statuses' | 'logs';
  title: string;
  read: (webhook: WebhookRow, owner: Owner, page: Page) => Promise<{ items: Document[]; total: number }>;
};

const pageOf = async (deps: WebhookDeps, { rel, title, read }: History, request: ApiRequest<undefined>) => {
  const { query } = request;
  const webhook = await webhookOf(deps.sql, request);
  const page = readPage(query);
  const owner = { shard: shardOf(webhook.id), storeId: webhook.storeId, id: webhook.id };
  const { items, total } = await read(webhook, owner, page);
  const back = addressOfWebhook(webhook.id, deps.baseUrl);
  const document = collection({ name: rel, rel, title, path: `${back}/${rel}`, query, page, total, items });
  return { ...document, links: [...document.links, { rel: 'webhook', href: back, title: 'The webhook' }] };
};

export const createHistory = (deps: WebhookDeps): Record<'statuses' | 'logs', Operation> => {
  const { sql, baseUrl } = deps;
  const statuses: History = {
    rel: 'statuses',
    title: 'The deliveries of this webhook',
    read: async (webhook, owner, page) => {
      const { epoch } = webhook;
      const [rows, total] = await Promise.all([
        listDeliveries(sql, { ...owner, epoch }, page),
        countDeliveries(sql, owner),
      ]);
      return { items: rows.map((row) => deliveryDocument(row, webhook, baseUrl)), total };
    },
  };
  const logs: History = {
    rel: 'logs',
    title: 'The attempts to deliver to this webhook',
    read: async (webhook, owner, page) => {
      const [rows, total] = await Promise.all([listAttempts(sql, owner, page), countAttempts(sql, owner)]);
      return { items: rows.map((row) => attemptDocument(row, webhook, baseUrl)), total };
    },
  };
  return {
    statuses: guarded({
      summary: 'The deliveries of this webhook, newest first, a page at a time',
      handle: async (request) => ({ status: 200, document: await pageOf(deps, statuses, request) }),
    }),
    logs: guarded({
      summary: 'The attempts to deliver to this webhook, newest first, a page at a time',
      handle: async (request) => ({ status: 200, document: await pageOf(deps, logs, request) }),
    }),
  };
};
