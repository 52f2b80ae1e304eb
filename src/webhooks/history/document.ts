/** A delivery and an attempt as the API shows them. */
import { addressOf } from '#commerce/document.ts';
import { addressOfEvent } from '#events/document.ts';
import { formatDate } from '#hypermedia/date.ts';
import { code, date, enumeration, number, text, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#kernel/listing.ts';
import { addressOfWebhook } from '../document.ts';
import type { WebhookRow } from '../queries.ts';
import type { AttemptRow, DeliveryRow } from './queries.ts';

/** How each property of a delivery is compared. */
export const STATUS_PROPERTIES = {
  id: 'number',
  resource_type: 'text',
  resource_id: 'text',
  webhook_id: 'number',
  event: 'text',
  status: 'text',
  attempts: 'number',
  date_next: 'date',
  date_created: 'date',
  date_ended: 'date',
} as const satisfies Comparisons;

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
  date_created: 'date',
} as const satisfies Comparisons;

type About = Pick<DeliveryRow, 'eventId' | 'type' | 'resourceId' | 'action'>;
/** Whose history it is: of a webhook that may be deleted by now. */
type Whose = Pick<WebhookRow, 'id' | 'storeId' | 'timeZone'> & { isGone?: boolean };

/** What was deleted, and what retention has dropped, has no address any more. */
const linksOf = ({ type, resourceId, eventId }: About, whose: Whose, baseUrl: string): Link[] => {
  const { id, storeId, isGone = false } = whose;
  const webhook = isGone ? [] : [{ rel: 'webhook', href: addressOfWebhook(id, baseUrl), title: 'The webhook' }];
  if (type === null || resourceId === null) return webhook;
  const resource = addressOf({ baseUrl, storeId, type, id: resourceId });
  const event = addressOfEvent({ id: eventId }, baseUrl, storeId);
  return [
    ...webhook,
    { rel: 'event', href: event, title: 'The event that was sent' },
    { rel: 'resource', href: resource, title: 'The latest version of what it is about' },
  ];
};

const aboutOf = ({ type, resourceId, action }: About, webhook: Pick<Whose, 'id'>) => [
  text('resource_type', type),
  text('resource_id', resourceId),
  number('webhook_id', webhook.id),
  text('event', type === null ? null : `${type}/${action}`),
];

const dateOrNull = (name: string, at: Date | null, timeZone: string) =>
  date(name, at === null ? null : formatDate(at, timeZone));

export const deliveryDocument = (row: DeliveryRow, webhook: Whose, baseUrl: string): Document => ({
  name: 'status',
  links: linksOf(row, webhook, baseUrl),
  embedded: [],
  properties: [
    number('id', row.id),
    ...aboutOf(row, webhook),
    enumeration('status', row.status),
    number('attempts', row.attempts),
    dateOrNull('date_next', row.dateNext, webhook.timeZone),
    dateOrNull('date_created', row.dateCreated, webhook.timeZone),
    dateOrNull('date_ended', row.dateEnded, webhook.timeZone),
  ],
});

export const attemptDocument = (row: AttemptRow, webhook: Whose, baseUrl: string): Document => ({
  name: 'log',
  links: linksOf(row, webhook, baseUrl),
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
    date('date_created', formatDate(row.dateStarted, webhook.timeZone)),
  ],
});
