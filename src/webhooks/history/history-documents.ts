/** The Documents of deliveries and attempts, with the reasons of failures in words. */
import { addressOf, nameOf } from '#catalog/resource-document.ts';
import { addressOfEvent } from '#events/operations.ts';
import { isTest } from '#catalog/catalog.ts';
import { formatDate } from '#hypermedia/date.ts';
import { code, date, enumeration, number, text, viewType, type Document, type Link } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { addressOfWebhook } from '../webhook-document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow, EventSummary } from './history-sql.ts';
import type { OutcomeLabel } from '#core/outcome.ts';

/**
 * The comparison type of each property of a delivery in filters and orders. `response_body` is that of the last attempt; only attempts
 * have it as a property, because it has up to 16 KiB. `not_arrived` is 1 for the deliveries that the health of a webhook counts, else 0.
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
  resent_as: 'number',
  not_arrived: 'filterOnly',
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
  rel: 'self' | 'status' | 'resent_as',
  title: string,
  id: number,
  webhook: HistoryWebhook,
  baseUrl: string,
): Link[] => (webhook.isGone === true ? [] : [{ rel, href: addressOfDelivery(id, webhook, baseUrl), title }]);

/** Returns what pages show of a delivery. */
export function viewOfDelivery(row: DeliveryRow, webhook: HistoryWebhook) {
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
    // The delivery that sent the event again.
    resentAs: row.resentAs,
  };
}

export type DeliveryView = ReturnType<typeof viewOfDelivery>;
export const deliveryView = viewType<DeliveryView>('delivery');

export function deliveryDocument(row: DeliveryRow, webhook: HistoryWebhook, baseUrl: string): Document {
  const view = viewOfDelivery(row, webhook);
  return {
    name: 'status',
    called: 'Delivery',
    title: view.title,
    links: [
      ...deliveryLink('self', 'This delivery', row.id, webhook, baseUrl),
      ...linksOf(row, webhook, baseUrl),
      ...(row.resentAs === null
        ? []
        : deliveryLink('resent_as', 'The delivery that sent the event again', row.resentAs, webhook, baseUrl)),
    ],
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
      number.orNull('resent_as', row.resentAs),
    ],
    ...deliveryView.attach(view),
  };
}

/** The parameter of a delivery's address that names the attempt whose request is shown. */
export const ATTEMPT = 'attempt';

/** Returns the address of the delivery with the request of this attempt. */
export function addressOfRequest(
  { deliveryId, n }: Pick<AttemptRow, 'deliveryId' | 'n'>,
  webhook: Pick<HistoryWebhook, 'id'>,
  baseUrl: string,
): string {
  return `${addressOfDelivery(deliveryId, webhook, baseUrl)}?${ATTEMPT}=${n}`;
}

export function attemptDocument(row: AttemptRow, webhook: HistoryWebhook, baseUrl: string): Document {
  return {
    name: 'log',
    links: [
      ...deliveryLink('status', 'The delivery of this attempt', row.deliveryId, webhook, baseUrl),
      ...(webhook.isGone === true
        ? []
        : [{ rel: 'request', href: addressOfRequest(row, webhook, baseUrl), title: 'The request of this attempt' }]),
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

/** `what` happened is the beginning of `text`, which adds the cause or what to do. */
export type Reason = { what: string; text: string };

const reason = (what: string, advice: string): Reason => ({ what, text: `${what}. ${advice}` });

const withDetail = (what: string, detail: string): Reason => ({ what, text: `${what}: ${detail}` });

const answeredWith = (status: number, detail: string): Reason => withDetail(`Your endpoint answered ${status}`, detail);

/** The explanation of a status other than 2xx. */
const BY_STATUS: Readonly<Record<number, string>> = {
  400: 'it cannot read the request. Check that it accepts JSON, and verifies the raw body before parsing it.',
  401: 'check that it verifies with the current encryption_key, and that no proxy in front of it requires a password.',
  403: 'check that no firewall or bot protection rejects our requests, and that it verifies with the current key.',
  404: 'the path does not exist. Check the path in the url of the webhook.',
  405: 'it must accept POST at this url.',
  408: 'it waited too long for the request. Check the proxies in front of it.',
  413: 'the body is too large. Raise its limit, or select less data by the query of the webhook.',
  415: 'it does not accept this Content-Type. Make it accept the one of the request.',
  422: 'it does not accept the content of the body. Its response may say why.',
  429: 'it receives too many requests. Set rate_per_second of the webhook.',
  502: 'the proxy in front of your server cannot reach it. Check that the server is running.',
  503: 'it is overloaded or temporarily down. Check that it is running.',
  504: 'your server does not answer the proxy in front of it in time. Answer 2xx first, and do slow work afterwards.',
};

function refusedReason(status: number): Reason {
  const known = BY_STATUS[status];
  if (known !== undefined) return answeredWith(status, known);
  if (status >= 300 && status < 400)
    return answeredWith(status, 'redirects are not followed. Set the url of the webhook to the target.');
  if (status >= 400 && status < 500) return answeredWith(status, 'it rejects the request. Its response may say why.');
  if (status >= 500 && status < 600)
    return answeredWith(status, 'an error occurred in it. Check its log at the time of the attempt.');
  return answeredWith(status, 'only a 2xx status confirms the event.');
}

type Outcome = {
  /** At least part of the request was sent. */
  isSent: boolean;
  /** Null if nothing is wrong; a function if the reason depends on the response status. */
  reason: Reason | null | ((code: number) => Reason);
};

const sent = (what: string, advice: string): Outcome => ({ isSent: true, reason: reason(what, advice) });
const unsent = (what: string, advice: string): Outcome => ({ isSent: false, reason: reason(what, advice) });

const OUTCOMES: Readonly<Record<OutcomeLabel, Outcome>> = {
  delivered: { isSent: true, reason: null },
  refused: { isSent: true, reason: refusedReason },
  gone: sent(
    'Your endpoint answered 410, which means that it is permanently gone and disables the webhook',
    'Make it answer 2xx, and enable the webhook again.',
  ),
  'timed_out:connect': unsent(
    'The connection timed out',
    'Check the host and the port of the url, and that your firewall allows our connections.',
  ),
  'timed_out:tls': unsent('The TLS handshake timed out', 'Check that your server speaks https at the port of the url.'),
  'timed_out:send': sent('Your endpoint did not read the request in time', 'Make it read the whole body.'),
  'timed_out:answer': sent('Your endpoint did not answer in time', 'Answer 2xx first, and do slow work afterwards.'),
  'timed_out:body': sent(
    'Your endpoint did not complete its response in time',
    'A status is enough: make it end the response.',
  ),
  'unreachable:dns': unsent('The host of the url does not exist', 'Check its spelling and its DNS records.'),
  'unreachable:connect': unsent(
    'The connection to your endpoint failed',
    'Check that your server is running and listens on the port of the url.',
  ),
  'unreachable:tls': unsent(
    'The TLS handshake failed',
    'Check that the certificate is for this host, has not expired, and is sent with its chain.',
  ),
  'unreachable:reset': sent(
    'The connection was closed before your endpoint answered',
    'Check whether your server or a proxy in front of it stopped or closed the connection.',
  ),
  malformed: sent(
    'The response is not HTTP/1.1',
    'Check that the url belongs to a web server, and whether it must be https.',
  ),
  too_large: sent('The headers of the response are too long', 'Make your endpoint send fewer: none is required.'),
  blocked: unsent(
    'Deliveries to the address of this url are not allowed',
    'Choose a public address, or contact the operator of this service.',
  ),
  internal: unsent(
    'The failure was on our side',
    'Send it again; if that fails too, contact the operator of this service.',
  ),
};

/** The outcomes offered as filter values. */
export const OUTCOME_LABELS: readonly string[] = Object.keys(OUTCOMES);

const outcomeOf = (outcome: string | null) =>
  outcome !== null && Object.hasOwn(OUTCOMES, outcome) ? OUTCOMES[outcome as OutcomeLabel] : undefined;

/** The result of an attempt; null if there was none. */
export type AttemptResult = { outcome: string | null; responseCode: number | null };

/** Returns why the attempt failed and how to fix it; null if it did not fail or the outcome is unknown. */
export function reasonOf({ outcome, responseCode }: AttemptResult): Reason | null {
  const found = outcomeOf(outcome)?.reason ?? null;
  return typeof found === 'function' ? (responseCode === null ? null : found(responseCode)) : found;
}

/** Returns whether part of the request may have reached the endpoint. */
export function wasSent({ outcome }: Pick<AttemptResult, 'outcome'>): boolean {
  return outcomeOf(outcome)?.isSent ?? false;
}

const NEVER_SENT = withDetail(
  'It was never sent',
  'before the first attempt the webhook was disabled, lost its url, the event was erased, or no listener answered.',
);

/** Returns why a delivery has not arrived: the reason of its last attempt. */
export function reasonOfDelivery(delivery: AttemptResult & { status: string; attempts: number }): Reason | null {
  return delivery.status === 'failed' && delivery.attempts === 0 ? NEVER_SENT : reasonOf(delivery);
}
