/** What the relations of webhooks mean, with examples made as the real ones are. */
import { listExample, type Chapter } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { webhookDocument } from './document.ts';
import { healthRelations } from './health/relations.ts';
import { attemptDocument, deliveryDocument } from './history/document.ts';
import type { AttemptRow, DeliveryRow } from './history/history-sql.ts';
import { deliveryRelations } from './history/delivery-relations.ts';
import type { WebhookRow } from './webhook-sql.ts';
import { recoveryRelations } from './recovery/relations.ts';

const now = new Date('2026-11-20T16:05:03Z');

const webhook: WebhookRow = {
  id: 2281,
  storeId: 1001,
  client: 11,
  user: 7,
  name: 'Orders to the warehouse',
  format: 'json',
  version: '2',
  url: 'https://warehouse.example.com/hooks',
  query: 'zoom=items,customer',
  encryptionKey: null,
  nextEncryptionKey: null,
  rotationEndsAt: new Date('2026-11-21T09:00:00Z'),
  requestSecrets: null,
  eventResource: 'transaction',
  events: ['transaction/created', 'transaction/refunded'],
  isActive: true,
  inactiveReason: null,
  isHeld: false,
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
  lacks: null,
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
  outcome: 'delivered',
  responseCode: 200,
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
  webhookDocument(webhook, {
    baseUrl,
    now,
    isRotatable: true,
    isListenable: false,
    encryptionKey: 'whsec_c2VjcmV0IG9mIHRoZSB3YXJlaG91c2U=',
    nextEncryptionKey: 'whsec_bmV3IHNlY3JldCBvZiB0aGUgd2FyZWhvdXNl',
  });
const listedStatus = ({ baseUrl }: Naming): Document => deliveryDocument(delivery, webhook, baseUrl);
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
        'Where events of a store are sent and in which shape. While is_active is "0" it triggers nothing; it is switched off by itself after too many failures in a row. Its encryption_key is shown to the client that made it (of a held one, for the same person alone), and null for all others but the owner of the store in person; so is next_encryption_key, which takes over from it at rotation_ends. All others also see null in place of the values of headers, and *** in place of each value in the query of url; a change that sends back what they see keeps what is there.',
      paths: ['/webhooks/:webhook_id'],
      example: webhookExample,
    },
    {
      rel: 'rotate_key',
      title: 'A new key for a webhook',
      about:
        'A POST gives the webhook a second key, next_encryption_key: one that you send, or one that is made up. Until rotation_ends deliveries carry signatures under both, so that your server can change over without missing anything; then the new one is the only key. {"finish":true} ends it at once. For who sees the key.',
      paths: ['/webhooks/:webhook_id/rotate_key'],
      makes: 'webhook',
    },
    {
      rel: 'test',
      title: 'A sample event for a webhook',
      about:
        'A POST sends one made-up event to the webhook at once, whether it is active or not, and answers with what came back. It is sent once and never again, counts towards nothing, and stands in the statuses and logs as <resource>/test. With the name of an event it goes out under that name, and stands there as <resource>/test:<action>.',
      paths: ['/webhooks/:webhook_id/test'],
      makes: 'log',
    },
    {
      rel: 'listen',
      title: 'A stream of what is held for a listener',
      about:
        'Of a webhook that was made with is_held "1": a stream of server-sent events (text/event-stream) for the app that made it and the same person, one listener at a time. Each event `delivery` has the request as your server would have got it; a POST to its `answer` says what became of it and ends it. What is not answered comes again with the next stream.',
      paths: ['/webhooks/:webhook_id/stream'],
    },
    {
      rel: 'answer',
      title: 'What became of a held delivery',
      about:
        'A POST from the listener ends the delivery: with the response_code that came back, or with an outcome where nothing answered. The same answer may be sent again; it is never tried again, and says nothing of how the webhook fares.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id/answer'],
      makes: 'log',
    },
    {
      rel: 'statuses',
      title: 'The deliveries of a webhook or of an event',
      about:
        'Of a webhook: one entry for each event that it was to be told of, newest first: whether it arrived, and when it is tried again. Of an event: one entry for each webhook that was to be told of it.',
      paths: ['/webhooks/:webhook_id/statuses', '/stores/:store_id/events/:event_id/statuses'],
      example: listExample('statuses', 'The deliveries of this webhook', '/webhooks/2281/statuses', listedStatus),
    },
    ...deliveryRelations({ webhook, delivery, attempt, now }),
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
        'One request of one delivery and what came back. Of your answer at most 16 KiB are kept. It is read in the list of attempts, and with its delivery; reason says why it failed and what to do about it.',
      example: logExample,
    },
    ...healthRelations,
    ...recoveryRelations,
  ],
};
