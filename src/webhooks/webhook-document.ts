import { isDeepStrictEqual } from 'node:util';
import { collectionOf } from '#catalog/catalog.ts';
import { listQueryOf } from '#catalog/payload-filter.ts';
import { propertiesOf } from '#http/field-table.ts';
import { formatDate } from '#hypermedia/date.ts';
import { viewType, type Document, type Link, type Property } from '#hypermedia/document.ts';
import type { Lack, WebhookRow } from './webhook-sql.ts';
import { webhookFields, type WebhookState } from './webhook-fields.ts';

/** Returns the state of a webhook. A condition that stops delivery takes precedence over failures. */
export function stateOf(
  webhook: Pick<WebhookRow, 'isActive' | 'lacks' | 'pausedUntil' | 'consecutiveFailures'>,
  now: Date,
): WebhookState {
  if (!webhook.isActive || webhook.lacks !== null) return 'inactive';
  if (webhook.pausedUntil !== null && webhook.pausedUntil > now) return 'paused';
  return webhook.consecutiveFailures > 0 ? 'failing' : 'ok';
}

const LACKS: Readonly<Record<Lack, string>> = {
  events: 'Nothing is sent: this webhook has no events. Set event_resource or events.',
  url: 'Nothing is sent: this webhook has no url. Set url.',
};

/** Returns the setting that an active webhook lacks, as a sentence; null if nothing is missing. */
export function lackReason({ isActive, lacks }: Pick<WebhookRow, 'isActive' | 'lacks'>): string | null {
  return isActive && lacks !== null ? LACKS[lacks] : null;
}

export function addressOfWebhook(id: number, baseUrl: string): string {
  return `${baseUrl}/webhooks/${id}`;
}

export function addressOfStore(storeId: number, baseUrl: string): string {
  return `${baseUrl}/stores/${storeId}`;
}

export function addressOfWebhooks(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/webhooks`;
}

/** Returns the link to the resources that pass the filter, if there is one that a list can apply. */
function passingLink({ storeId, filter, eventResource }: WebhookRow, baseUrl: string): Link[] {
  const query = filter === null || eventResource === null ? undefined : listQueryOf(filter, eventResource);
  if (query === undefined || eventResource === null) return [];
  const href = `${addressOfStore(storeId, baseUrl)}/${collectionOf(eventResource)}?${query}`;
  return [{ rel: 'passing', href, title: 'The resources that pass the filter of this webhook' }];
}

/** Returns the links to the store of a webhook and to its webhooks. */
const linksAbove = (storeId: number, baseUrl: string, title = 'The store'): Link[] => [
  { rel: 'store', href: addressOfStore(storeId, baseUrl), title, crumb: 'Store' },
  { rel: 'webhooks', href: addressOfWebhooks(storeId, baseUrl), title: 'All webhooks of the store', crumb: 'Webhooks' },
];

function linksOf(webhook: WebhookRow, shown: Shown): Link[] {
  const { baseUrl, isRotatable, isListenable, isSendable, publicKey, nextPublicKey } = shown;
  const self = addressOfWebhook(webhook.id, baseUrl);
  const link = (rel: string, title: string, path = rel): Link => ({ rel, href: `${self}/${path}`, title });
  return [
    { rel: 'self', href: self, title: 'This webhook' },
    ...linksAbove(webhook.storeId, baseUrl, 'The store of this webhook'),
    link('health', 'The health of this webhook'),
    link('statuses', 'The deliveries of this webhook'),
    link('logs', 'The attempts to deliver to this webhook'),
    ...(isSendable ? [link('recover', 'Recover events that this webhook missed')] : []),
    link('recoveries', 'The recoveries of this webhook'),
    ...(isSendable
      ? [
          link('test', 'Send a sample event to this webhook'),
          link('retry_pending', 'Retry the pending deliveries of this webhook now'),
        ]
      : []),
    ...passingLink(webhook, baseUrl),
    ...(isListenable ? [link('listen', 'Listen to the deliveries of this webhook', 'stream')] : []),
    ...(isRotatable ? [link('rotate_key', 'Rotate the key of this webhook')] : []),
    ...(publicKey === null && nextPublicKey === null
      ? []
      : [link('jwks', 'The public keys of this webhook', 'jwks.json')]),
  ];
}

/** Returns breadcrumb links for sub-resources of a webhook. */
export function breadcrumbLinks(
  { id, storeId, name }: Pick<WebhookRow, 'id' | 'storeId' | 'name'>,
  baseUrl: string,
): Link[] {
  return [
    ...linksAbove(storeId, baseUrl),
    { rel: 'webhook', href: addressOfWebhook(id, baseUrl), title: 'The webhook', crumb: name },
  ];
}

/**
 * The keys are null if there are none or the reader may not see them. `isRotatable`, `isListenable`, `isSendable`: whether the reader may
 * rotate the key, listen, or make Halcyon send.
 */
type Shown = {
  baseUrl: string;
  now: Date;
  /** The values of headers and the query of the url are masked until the reader confirms who they are. */
  isWithheld?: boolean;
  isRotatable: boolean;
  isListenable: boolean;
  isSendable: boolean;
  encryptionKey: string | null;
  nextEncryptionKey: string | null;
  /** Of Ed25519 keys, for every reader. */
  publicKey: string | null;
  nextPublicKey: string | null;
};

/**
 * Returns the version that If-Match is compared with. A rotation ends by time without raising the revision, so the version marks
 * it: otherwise a client that PUTs back what it read during the rotation would restore the old key.
 */
export function versionOf({ revision, nextEncryptionKey }: Pick<WebhookRow, 'revision' | 'nextEncryptionKey'>) {
  return nextEncryptionKey === null ? `${revision}` : `${revision}r`;
}

const describe = propertiesOf(webhookFields);

const withWithheldHeaders = (property: Property): Property =>
  property.name === 'headers' && !isDeepStrictEqual(property.value, {})
    ? Object.assign(property, { isWithheld: true })
    : property;

/** Returns what pages show of a webhook. */
function viewOf(webhook: WebhookRow, { isRotatable }: Shown, state: WebhookState) {
  return {
    storeId: webhook.storeId,
    url: webhook.url,
    eventResource: webhook.eventResource,
    events: webhook.events,
    format: webhook.format,
    version: webhook.version,
    ratePerSecond: webhook.ratePerSecond,
    retryProfile: webhook.retryProfile,
    ordering: webhook.ordering,
    isActive: webhook.isActive,
    isHeld: webhook.isHeld,
    state,
    // When the next key becomes the only one; null without a rotation.
    rotationEnds: webhook.rotationEndsAt && formatDate(webhook.rotationEndsAt, webhook.timeZone),
    hasHeaders: Object.keys(webhook.headers).length > 0,
    // The reader may see and rotate the key.
    isRotatable,
  };
}

export type WebhookView = ReturnType<typeof viewOf>;
export const webhookView = viewType<WebhookView>('webhook');

/** Returns the Document of a webhook. An expired rotation must have been resolved by `withCurrentKeys`. */
export function webhookDocument(webhook: WebhookRow, shown: Shown): Document {
  const state = stateOf(webhook, shown.now);
  const properties = describe(webhook, webhook.timeZone, {
    encryption_key: shown.encryptionKey,
    next_encryption_key: shown.nextEncryptionKey,
    public_key: shown.publicKey,
    next_public_key: shown.nextPublicKey,
    state,
    reason: lackReason(webhook),
  });
  return {
    name: 'webhook',
    title: webhook.name,
    version: versionOf(webhook),
    timeZone: webhook.timeZone,
    ...(webhook.isForApp && { isUnchangeable: true as const }),
    links: linksOf(webhook, shown),
    embedded: [],
    properties: shown.isWithheld ? properties.map(withWithheldHeaders) : properties,
    ...webhookView.attach(viewOf(webhook, shown, state)),
  };
}
