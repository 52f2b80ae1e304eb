import { formatDate } from '#hypermedia/date.ts';
import {
  boolean,
  date,
  enumeration,
  json,
  number,
  secret,
  text,
  url,
  type Document,
  type Link,
} from '#hypermedia/document.ts';
import type { Comparisons } from '#kernel/listing.ts';
import type { WebhookRow } from './queries.ts';

/** How each property of a webhook is compared. */
export const WEBHOOK_PROPERTIES = {
  id: 'number',
  name: 'text',
  format: 'text',
  version: 'text',
  url: 'text',
  query: 'text',
  encryption_key: 'none',
  event_resource: 'text',
  events: 'none',
  is_active: 'boolean',
  headers: 'none',
  rate_per_second: 'number',
  retry_profile: 'text',
  state: 'text',
  date_created: 'date',
  date_modified: 'date',
} as const satisfies Comparisons;

export type WebhookState = 'ok' | 'failing' | 'paused' | 'inactive';

/** How a webhook fares; what stops it outright is said before what merely troubles it. */
export const stateOf = (
  webhook: Pick<WebhookRow, 'isActive' | 'pausedUntil' | 'consecutiveFailures'>,
  now: Date,
): WebhookState => {
  if (!webhook.isActive) return 'inactive';
  if (webhook.pausedUntil !== null && webhook.pausedUntil > now) return 'paused';
  return webhook.consecutiveFailures > 0 ? 'failing' : 'ok';
};

export const addressOfWebhook = (id: number, baseUrl: string): string => `${baseUrl}/webhooks/${id}`;

export const addressOfStore = (storeId: number, baseUrl: string): string => `${baseUrl}/stores/${storeId}`;

export const addressOfWebhooks = (storeId: number, baseUrl: string): string =>
  `${addressOfStore(storeId, baseUrl)}/webhooks`;

const linksOf = (webhook: WebhookRow, baseUrl: string): Link[] => {
  const self = addressOfWebhook(webhook.id, baseUrl);
  return [
    { rel: 'self', href: self, title: 'This webhook' },
    { rel: 'store', href: addressOfStore(webhook.storeId, baseUrl), title: 'The store of this webhook' },
    { rel: 'webhooks', href: addressOfWebhooks(webhook.storeId, baseUrl), title: 'All webhooks of the store' },
    { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this webhook' },
    { rel: 'logs', href: `${self}/logs`, title: 'The attempts to deliver to this webhook' },
  ];
};

/** A webhook. `encryptionKey` is null where there is none or where the reader may not see it. */
export const webhookDocument = (
  webhook: WebhookRow,
  shown: { baseUrl: string; now: Date; encryptionKey: string | null },
): Document => ({
  name: 'webhook',
  title: webhook.name,
  version: webhook.revision,
  links: linksOf(webhook, shown.baseUrl),
  embedded: [],
  properties: [
    number('id', webhook.id),
    text('name', webhook.name),
    enumeration('format', webhook.format),
    text('version', webhook.version),
    url('url', webhook.url),
    text('query', webhook.query),
    secret('encryption_key', shown.encryptionKey),
    enumeration('event_resource', webhook.eventResource),
    json('events', webhook.events),
    // The specification writes this one boolean as a text.
    boolean('is_active', webhook.isActive ? '1' : '0'),
    json('headers', webhook.headers),
    number('rate_per_second', webhook.ratePerSecond),
    enumeration('retry_profile', webhook.retryProfile),
    enumeration('state', stateOf(webhook, shown.now)),
    date('date_created', formatDate(webhook.dateCreated, webhook.timeZone)),
    date('date_modified', formatDate(webhook.dateModified, webhook.timeZone)),
  ],
});
