/** The Documents of deliveries and attempts. */
import { addressOf, nameOf } from '#catalog/resource-document.ts';
import { addressOfEvent } from '#events/event-document.ts';
import { isTest } from '#catalog/sample.ts';
import { formatDate } from '#hypermedia/date.ts';
import { code, date, enumeration, number, text, viewType, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { addressOfWebhook } from '../webhook-document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { reasonOf, reasonOfDelivery, type Reason } from './reason.ts';

/**
 * The comparison type of each property of a delivery in filters and orders. `response_body` is that of the last attempt; only attempts
 * have it as a property, because it has up to 16 KiB.
 */
export const STATUS_PROPERTIES = {
  id: 'number',
  resource_type: 'text',
  resource_id: 'text',
  webhook_id: 'number',
  event: 'text',
  status: 'text',
  reason: 'none',
  attempts: 'number',
  response_code: 'number',
  response_body: 'filterOnly',
  date_next: 'date',
  date_created: 'date',
  date_ended: 'date',
} as const satisfies Comparisons;

export const DELIVERY_STATES = ['pending', 'successful', 'failed'] as const;

/**
 * The comparison type of each property of an attempt. Responses are searched by the last attempt of deliveries, of which there are fewer,
 * and of which failed ones have an index.
 */
export const LOG_PROPERTIES = {
  id: 'text',
  resource_type: 'text',
  resource_id: 'text',
  webhook_id: 'number',
  event: 'text',
  attempt: 'number',
  response_code: 'number',
  response_body: 'none',
  response_headers: 'none',
  duration: 'number',
  outcome: 'text',
  reason: 'none',
  date_created: 'date',
} as const satisfies Comparisons;

type EventSummary = Pick<DeliveryRow, 'eventId' | 'type' | 'resourceId' | 'action'>;
/** The webhook of a delivery. `isGone`: it was deleted. */
export type HistoryWebhook = Pick<WebhookRow, 'id' | 'storeId' | 'timeZone'> & { isGone?: boolean };

/** Returns links to the webhook, event and resource, as far as they still exist. */
function linksOf(
  { type, resourceId, eventId, action }: EventSummary,
  webhook: HistoryWebhook,
  baseUrl: string,
): Link[] {
  const { id, storeId, isGone = false } = webhook;
  const above = isGone ? [] : [{ rel: 'webhook', href: addressOfWebhook(id, baseUrl), title: 'The webhook' }];
  if (type === null || resourceId === null) return above;
  const event = addressOfEvent({ id: eventId }, baseUrl, storeId);
  const links = [...above, { rel: 'event', href: event, title: 'The event' }];
  // The resource of a sample event does not exist.
  if (isTest(action)) return links;
  const resource = addressOf({ baseUrl, storeId, type, id: resourceId });
  return [...links, { rel: 'resource', href: resource, title: 'The latest version of the resource' }];
}

const eventName = ({ type, action }: EventSummary): string | null => (type === null ? null : `${type}/${action}`);

const eventProperties = (event: EventSummary, webhook: Pick<HistoryWebhook, 'id'>) => [
  text.orNull('resource_type', event.type),
  text.orNull('resource_id', event.resourceId),
  number('webhook_id', webhook.id),
  text.orNull('event', eventName(event)),
];

const formatted = (at: Date | null, { timeZone }: HistoryWebhook): string | null => at && formatDate(at, timeZone);

/** Returns the URL of a delivery. */
export function addressOfDelivery(id: number, webhook: Pick<HistoryWebhook, 'id'>, baseUrl: string): string {
  return `${addressOfWebhook(webhook.id, baseUrl)}/statuses/${id}`;
}

const titleOf = ({ id, type, resourceId, action }: DeliveryRow): string =>
  type === null || resourceId === null ? `Delivery ${id}` : `${nameOf({ type, id: resourceId })} ${action}`;

/** Returns the link to a delivery; none if its webhook was deleted. */
const deliveryLink = (
  rel: 'self' | 'status',
  title: string,
  id: number,
  webhook: HistoryWebhook,
  baseUrl: string,
): Link[] => (webhook.isGone === true ? [] : [{ rel, href: addressOfDelivery(id, webhook, baseUrl), title }]);

export type DeliveryView = {
  id: number;
  title: string;
  webhookId: number;
  event: string | null;
  status: DeliveryRow['status'];
  reason: Reason | null;
  attempts: number;
  dateNext: string | null;
  dateCreated: string | null;
  dateEnded: string | null;
};

export const deliveryView = viewType<DeliveryView>('delivery');

export function viewOfDelivery(row: DeliveryRow, webhook: HistoryWebhook): DeliveryView {
  const { id, status, attempts } = row;
  return {
    id,
    title: titleOf(row),
    webhookId: webhook.id,
    event: eventName(row),
    status,
    reason: reasonOfDelivery(row),
    attempts,
    dateNext: formatted(row.dateNext, webhook),
    dateCreated: formatted(row.dateCreated, webhook),
    dateEnded: formatted(row.dateEnded, webhook),
  };
}

export function deliveryDocument(row: DeliveryRow, webhook: HistoryWebhook, baseUrl: string): Document {
  const view = viewOfDelivery(row, webhook);
  return {
    name: 'status',
    called: 'Delivery',
    title: view.title,
    links: [...deliveryLink('self', 'This delivery', row.id, webhook, baseUrl), ...linksOf(row, webhook, baseUrl)],
    embedded: [],
    properties: [
      number('id', row.id),
      ...eventProperties(row, webhook),
      enumeration('status', row.status),
      text.orNull('reason', view.reason?.text ?? null),
      number('attempts', row.attempts),
      number.orNull('response_code', row.responseCode),
      date.orNull('date_next', view.dateNext),
      date.orNull('date_created', view.dateCreated),
      date.orNull('date_ended', view.dateEnded),
    ],
    ...deliveryView.attach(view),
  };
}

export function attemptDocument(row: AttemptRow, webhook: HistoryWebhook, baseUrl: string): Document {
  return {
    name: 'log',
    links: [
      ...deliveryLink('status', 'The delivery of this attempt', row.deliveryId, webhook, baseUrl),
      ...linksOf(row, webhook, baseUrl),
    ],
    embedded: [],
    properties: [
      text('id', `${row.deliveryId}-${row.n}`),
      ...eventProperties(row, webhook),
      number('attempt', row.n),
      number.orNull('response_code', row.responseCode),
      code.orNull('response_body', row.responseBody),
      code.orNull('response_headers', row.responseHeaders),
      { ...number('duration', row.durationMs), unit: 'ms' },
      text('outcome', row.outcome),
      text.orNull('reason', reasonOf(row)?.text ?? null),
      date('date_created', formatDate(row.dateStarted, webhook.timeZone)),
    ],
  };
}
