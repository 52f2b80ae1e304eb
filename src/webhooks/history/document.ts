/** A delivery and an attempt as the API shows them. */
import { addressOf, nameOf } from '#catalog/document.ts';
import { addressOfEvent } from '#events/document.ts';
import { isTest } from '#catalog/sample.ts';
import { formatDate } from '#hypermedia/date.ts';
import { code, date, enumeration, number, text, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { addressOfWebhook } from '../document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { reasonOf, reasonOfDelivery } from './reason.ts';

/** How each property of a delivery is compared. */
export const STATUS_PROPERTIES = {
  id: 'number',
  resource_type: 'text',
  resource_id: 'text',
  webhook_id: 'number',
  event: 'text',
  status: 'text',
  reason: 'none',
  attempts: 'number',
  date_next: 'date',
  date_created: 'date',
  date_ended: 'date',
} as const satisfies Comparisons;

export const DELIVERY_STATES = ['pending', 'successful', 'failed'] as const;

/** How each property of an attempt is compared. What came back is up to 16 KiB each: a search would read gigabytes. */
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

export type About = Pick<DeliveryRow, 'eventId' | 'type' | 'resourceId' | 'action'>;
/** Whose history it is: of a webhook that may be deleted by now. */
export type Whose = Pick<WebhookRow, 'id' | 'storeId' | 'timeZone'> & { isGone?: boolean };

/** What was deleted, and what retention has dropped, has no address any more. */
const linksOf = ({ type, resourceId, eventId, action }: About, whose: Whose, baseUrl: string): Link[] => {
  const { id, storeId, isGone = false } = whose;
  const webhook = isGone ? [] : [{ rel: 'webhook', href: addressOfWebhook(id, baseUrl), title: 'The webhook' }];
  if (type === null || resourceId === null) return webhook;
  const event = addressOfEvent({ id: eventId }, baseUrl, storeId);
  const links = [...webhook, { rel: 'event', href: event, title: 'The event that was sent' }];
  // What was made up is nowhere.
  if (isTest(action)) return links;
  const resource = addressOf({ baseUrl, storeId, type, id: resourceId });
  return [...links, { rel: 'resource', href: resource, title: 'The latest version of what it is about' }];
};

const aboutOf = ({ type, resourceId, action }: About, webhook: Pick<Whose, 'id'>) => [
  text('resource_type', type),
  text('resource_id', resourceId),
  number('webhook_id', webhook.id),
  text('event', type === null ? null : `${type}/${action}`),
];

const dateOrNull = (name: string, at: Date | null, timeZone: string) =>
  date(name, at === null ? null : formatDate(at, timeZone));

/** Where a delivery is read. */
export const addressOfDelivery = (id: number, webhook: Pick<Whose, 'id'>, baseUrl: string): string =>
  `${addressOfWebhook(webhook.id, baseUrl)}/statuses/${id}`;

const titleOf = ({ id, type, resourceId, action }: DeliveryRow): string =>
  type === null || resourceId === null ? `Delivery ${id}` : `${nameOf({ type, id: resourceId })} ${action}`;

/** Behind its webhook, if that is still there. */
const linkTo = (rel: 'self' | 'status', title: string, id: number, webhook: Whose, baseUrl: string): Link[] =>
  webhook.isGone === true ? [] : [{ rel, href: addressOfDelivery(id, webhook, baseUrl), title }];

export const deliveryDocument = (row: DeliveryRow, webhook: Whose, baseUrl: string): Document => ({
  name: 'status',
  called: 'Delivery',
  title: titleOf(row),
  links: [...linkTo('self', 'This delivery', row.id, webhook, baseUrl), ...linksOf(row, webhook, baseUrl)],
  embedded: [],
  properties: [
    number('id', row.id),
    ...aboutOf(row, webhook),
    enumeration('status', row.status),
    text('reason', reasonOfDelivery(row)),
    number('attempts', row.attempts),
    dateOrNull('date_next', row.dateNext, webhook.timeZone),
    dateOrNull('date_created', row.dateCreated, webhook.timeZone),
    dateOrNull('date_ended', row.dateEnded, webhook.timeZone),
  ],
});

export const attemptDocument = (row: AttemptRow, webhook: Whose, baseUrl: string): Document => ({
  name: 'log',
  links: [
    ...linkTo('status', 'The delivery that it was for', row.deliveryId, webhook, baseUrl),
    ...linksOf(row, webhook, baseUrl),
  ],
  embedded: [],
  properties: [
    text('id', `${row.deliveryId}-${row.n}`),
    ...aboutOf(row, webhook),
    number('attempt', row.n),
    number('response_code', row.responseCode),
    code('response_body', row.responseBody),
    code('response_headers', row.responseHeaders),
    { ...number('duration', row.durationMs), unit: 'ms' },
    text('outcome', row.outcome),
    text('reason', reasonOf(row)),
    date('date_created', formatDate(row.dateStarted, webhook.timeZone)),
  ],
});
