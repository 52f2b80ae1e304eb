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
import type { Comparisons } from '#core/listing.ts';
import type { Lack } from './health/health-sql.ts';
import type { WebhookRow } from './webhook-sql.ts';

/** How each property of a webhook is compared. */
export const WEBHOOK_PROPERTIES = {
  id: 'number',
  name: 'text',
  format: 'text',
  version: 'text',
  url: 'text',
  query: 'text',
  encryption_key: 'none',
  next_encryption_key: 'none',
  rotation_ends: 'date',
  event_resource: 'text',
  events: 'none',
  is_active: 'boolean',
  inactive_reason: 'text',
  is_held: 'boolean',
  headers: 'none',
  rate_per_second: 'number',
  retry_profile: 'text',
  state: 'text',
  reason: 'none',
  date_created: 'date',
  date_modified: 'date',
} as const satisfies Comparisons;

export const WEBHOOK_STATES = ['ok', 'failing', 'paused', 'inactive'] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

/** How a webhook fares; what stops it outright is said before what merely troubles it. */
export const stateOf = (
  webhook: Pick<WebhookRow, 'isActive' | 'lacks' | 'pausedUntil' | 'consecutiveFailures'>,
  now: Date,
): WebhookState => {
  if (!webhook.isActive || webhook.lacks !== null) return 'inactive';
  if (webhook.pausedUntil !== null && webhook.pausedUntil > now) return 'paused';
  return webhook.consecutiveFailures > 0 ? 'failing' : 'ok';
};

const LACKS: Readonly<Record<Lack, string>> = {
  events: 'Nothing is ever sent: this webhook has no events. Set event_resource or events.',
  url: 'Nothing is ever sent: this webhook has no url. Set one.',
};

/** Returns why an active webhook is sent nothing, where that is so. */
export const lackReason = ({ isActive, lacks }: Pick<WebhookRow, 'isActive' | 'lacks'>): string | null =>
  isActive && lacks !== null ? LACKS[lacks] : null;

export const addressOfWebhook = (id: number, baseUrl: string): string => `${baseUrl}/webhooks/${id}`;

export const addressOfStore = (storeId: number, baseUrl: string): string => `${baseUrl}/stores/${storeId}`;

export const addressOfWebhooks = (storeId: number, baseUrl: string): string =>
  `${addressOfStore(storeId, baseUrl)}/webhooks`;

/** `isRotatable`, `isListenable`: by the reader. */
const linksOf = (
  webhook: WebhookRow,
  { baseUrl, isRotatable, isListenable }: Pick<Shown, 'baseUrl' | 'isRotatable' | 'isListenable'>,
): Link[] => {
  const self = addressOfWebhook(webhook.id, baseUrl);
  const rotation = { rel: 'rotate_key', href: `${self}/rotate_key`, title: 'Give this webhook a new key' };
  return [
    { rel: 'self', href: self, title: 'This webhook' },
    {
      rel: 'store',
      href: addressOfStore(webhook.storeId, baseUrl),
      title: 'The store of this webhook',
      crumb: 'Store',
    },
    {
      rel: 'webhooks',
      href: addressOfWebhooks(webhook.storeId, baseUrl),
      title: 'All webhooks of the store',
      crumb: 'Webhooks',
    },
    { rel: 'health', href: `${self}/health`, title: 'The health of this webhook' },
    { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this webhook' },
    { rel: 'logs', href: `${self}/logs`, title: 'The attempts to deliver to this webhook' },
    { rel: 'recover', href: `${self}/recover`, title: 'Send what this webhook has missed' },
    { rel: 'recoveries', href: `${self}/recoveries`, title: 'The recoveries of this webhook' },
    { rel: 'test', href: `${self}/test`, title: 'Send a sample event to this webhook' },
    ...(isListenable ? [{ rel: 'listen', href: `${self}/stream`, title: 'A stream of what is held for you' }] : []),
    ...(isRotatable ? [rotation] : []),
  ];
};

/** The way from outside to what is below a webhook. */
export const linksAbove = (
  { id, storeId, name }: Pick<WebhookRow, 'id' | 'storeId' | 'name'>,
  baseUrl: string,
): Link[] => [
  { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' },
  { rel: 'webhooks', href: addressOfWebhooks(storeId, baseUrl), title: 'All webhooks of the store', crumb: 'Webhooks' },
  { rel: 'webhook', href: addressOfWebhook(id, baseUrl), title: 'The webhook', crumb: name },
];

/** The keys are null where there are none or where the reader may not see them; who sees them may rotate them. */
type Shown = {
  baseUrl: string;
  now: Date;
  isRotatable: boolean;
  isListenable: boolean;
  encryptionKey: string | null;
  nextEncryptionKey: string | null;
};

/**
 * What a change is compared with (If-Match), of a webhook whose keys are settled. Time ends a rotation and raises no revision; who
 * read the webhook before and puts it back after would set the key again that is out of use.
 */
export const versionOf = ({ revision, nextEncryptionKey }: Pick<WebhookRow, 'revision' | 'nextEncryptionKey'>) =>
  nextEncryptionKey === null ? `${revision}` : `${revision}r`;

/** A webhook, whose rotation is none any more when its time is over. */
export const webhookDocument = (webhook: WebhookRow, shown: Shown): Document => ({
  name: 'webhook',
  title: webhook.name,
  version: versionOf(webhook),
  links: linksOf(webhook, shown),
  embedded: [],
  properties: [
    number('id', webhook.id),
    text('name', webhook.name),
    enumeration('format', webhook.format),
    text('version', webhook.version),
    url('url', webhook.url),
    text('query', webhook.query),
    secret('encryption_key', shown.encryptionKey),
    secret('next_encryption_key', shown.nextEncryptionKey),
    date('rotation_ends', webhook.rotationEndsAt && formatDate(webhook.rotationEndsAt, webhook.timeZone)),
    enumeration('event_resource', webhook.eventResource),
    json('events', webhook.events),
    // The specification writes the first boolean as a text, and so the other is, too.
    boolean('is_active', webhook.isActive ? '1' : '0'),
    enumeration('inactive_reason', webhook.inactiveReason),
    boolean('is_held', webhook.isHeld ? '1' : '0'),
    json('headers', webhook.headers),
    number('rate_per_second', webhook.ratePerSecond),
    enumeration('retry_profile', webhook.retryProfile),
    enumeration('state', stateOf(webhook, shown.now)),
    text('reason', lackReason(webhook)),
    date('date_created', formatDate(webhook.dateCreated, webhook.timeZone)),
    date('date_modified', formatDate(webhook.dateModified, webhook.timeZone)),
  ],
});
