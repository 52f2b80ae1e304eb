/** What the relations of webhooks mean, with examples made as the real ones are. */
import { listExample, type Chapter } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { webhookDocument } from './document.ts';
import { attemptDocument, deliveryDocument } from './history/document.ts';
import type { AttemptRow, DeliveryRow } from './history/queries.ts';
import type { WebhookRow } from './queries.ts';

const now = new Date('2026-11-20T16:05:03Z');

const webhook: WebhookRow = {
  id: 2281,
  storeId: 1001,
  client: 11,
  name: 'Orders to the warehouse',
  format: 'json',
  version: '2',
  url: 'https://warehouse.example.com/hooks',
  query: 'zoom=items,customer',
  encryptionKey: null,
  eventResource: 'transaction',
  events: ['transaction/created', 'transaction/refunded'],
  isActive: true,
  headers: { 'X-Warehouse': 'north' },
  ratePerSecond: 10,
  retryProfile: 'hour',
  epoch: 1,
  revision: 1,
  dateCreated: new Date('2026-11-02T08:30:00Z'),
  dateModified: new Date('2026-11-18T14:12:41Z'),
  timeZone: 'Europe/Berlin',
  consecutiveFailures: 0,
  pausedUntil: null,
  heldUntil: null,
};

const about = {
  eventId: 691_489_734_656_233,
  type: 'transaction',
  resourceId: '70012',
  action: 'created',
} as const;

const delivery: DeliveryRow = {
  ...about,
  id: 691_489_734_656_489,
  status: 'successful',
  attempts: 2,
  dateNext: null,
  dateCreated: now,
  dateEnded: new Date('2026-11-20T16:06:11Z'),
};

const attempt: AttemptRow = {
  ...about,
  deliveryId: delivery.id,
  n: 2,
  dateStarted: new Date('2026-11-20T16:06:10Z'),
  durationMs: 214,
  outcome: 'delivered',
  responseCode: 200,
  responseHeaders: 'content-type: text/plain',
  responseBody: 'thank you',
};

const webhookExample = ({ baseUrl }: Naming): Document =>
  webhookDocument(webhook, { baseUrl, now, encryptionKey: 'whsec_c2VjcmV0IG9mIHRoZSB3YXJlaG91c2U=' });
const statusExample = ({ baseUrl }: Naming): Document => deliveryDocument(delivery, webhook, baseUrl);
const logExample = ({ baseUrl }: Naming): Document => attemptDocument(attempt, webhook, baseUrl);

export const webhookChapter: Chapter = {
  title: 'Webhooks',
  about: 'What happens in a store is sent to an address of yours, and every attempt can be read afterwards.',
  relations: [
    {
      rel: 'webhooks',
      title: 'The webhooks of a store',
      about:
        'Every webhook that any app has made in this store. A POST here makes another one; a store has at most 100 of them.',
      paths: ['/stores/:store_id/webhooks'],
      makes: 'webhook',
      example: listExample('webhooks', 'The webhooks of this store', '/stores/1001/webhooks', webhookExample),
    },
    {
      rel: 'webhook',
      title: 'A webhook',
      about:
        'Where events of a store are sent and in which shape. While is_active is "0" it triggers nothing; it is switched off by itself after too many failures in a row. Its encryption_key is shown to the client that made it and is null for all others.',
      paths: ['/webhooks/:webhook_id'],
      example: webhookExample,
    },
    {
      rel: 'statuses',
      title: 'The deliveries of a webhook or of an event',
      about:
        'Of a webhook: one entry for each event that it was to be told of, newest first: whether it arrived, and when it is tried again. Of an event: one entry for each webhook that was to be told of it.',
      paths: ['/webhooks/:webhook_id/statuses', '/stores/:store_id/events/:event_id/statuses'],
      example: listExample('statuses', 'The deliveries of this webhook', '/webhooks/2281/statuses', statusExample),
    },
    {
      rel: 'status',
      title: 'A delivery',
      about:
        'One event on its way to one webhook: pending until it arrives or is given up. It is read in the list of deliveries and has no address of its own.',
      example: statusExample,
    },
    {
      rel: 'logs',
      title: 'The attempts to deliver',
      about:
        'Every request that was sent for this webhook, newest first, with what your server answered and how long it took in milliseconds.',
      paths: ['/webhooks/:webhook_id/logs'],
      example: listExample('logs', 'The attempts to deliver to this webhook', '/webhooks/2281/logs', logExample),
    },
    {
      rel: 'log',
      title: 'An attempt to deliver',
      about:
        'One request of one delivery and what came back. Of your answer at most 16 KiB are kept. It is read in the list of attempts and has no address of its own.',
      example: logExample,
    },
  ],
};
