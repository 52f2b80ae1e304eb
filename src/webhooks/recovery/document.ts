/** The Document of a recovery. */
import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, enumeration, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons } from '#core/listing.ts';
import { addressOfWebhook, breadcrumbLinks } from '../document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { RecoveryRow } from './recovery-sql.ts';

/** The comparison type of each property in filters and orders. */
export const RECOVERY_PROPERTIES = {
  id: 'number',
  webhook_id: 'number',
  state: 'text',
  since: 'date',
  until: 'date',
  event: 'text',
  only_failed: 'boolean',
  resource_id: 'text',
  response_code: 'number',
  response_body: 'text',
  events_total: 'number',
  events_seen: 'number',
  events_recovered: 'number',
  date_created: 'date',
  date_modified: 'date',
  date_ended: 'date',
} as const satisfies Comparisons;

/** The reload interval of the page while the recovery is open. */
const REFRESH_SECONDS = 3;

export function addressOfRecoveries(webhookId: number, baseUrl: string): string {
  return `${addressOfWebhook(webhookId, baseUrl)}/recoveries`;
}

export function addressOfRecovery({ id, webhookId }: Pick<RecoveryRow, 'id' | 'webhookId'>, baseUrl: string): string {
  return `${addressOfRecoveries(webhookId, baseUrl)}/${id}`;
}

export function isOpen({ state }: Pick<RecoveryRow, 'state'>): boolean {
  return state === 'waiting' || state === 'running';
}

/** Returns the version that If-Match of a cancellation is compared with. Progress does not change it. */
export function versionOf(row: Pick<RecoveryRow, 'state'>): string {
  return isOpen(row) ? 'open' : row.state;
}

type RecoveredWebhook = Pick<WebhookRow, 'id' | 'storeId' | 'name' | 'timeZone'>;

/** `isSendable`: the reader may make Halcyon send to the webhook, and so cancel this. */
export function recoveryDocument(
  row: RecoveryRow,
  { timeZone, ...webhook }: RecoveredWebhook,
  { baseUrl, isSendable = true }: { baseUrl: string; isSendable?: boolean },
): Document {
  return {
    name: 'recovery',
    title: `Recovery ${row.id}`,
    version: versionOf(row),
    links: [
      { rel: 'self', href: addressOfRecovery(row, baseUrl), title: 'This recovery' },
      ...breadcrumbLinks(webhook, baseUrl),
      {
        rel: 'recoveries',
        href: addressOfRecoveries(row.webhookId, baseUrl),
        title: 'All recoveries of the webhook',
        crumb: 'Recoveries',
      },
      ...(isSendable && isOpen(row)
        ? [{ rel: 'cancel', href: `${addressOfRecovery(row, baseUrl)}/cancel`, title: 'Cancel this recovery' }]
        : []),
    ],
    embedded: [],
    ...(isOpen(row) && { refreshSeconds: REFRESH_SECONDS }),
    properties: [
      number('id', row.id),
      number('webhook_id', row.webhookId),
      enumeration('state', row.state),
      date('since', formatDate(row.since, timeZone)),
      date.orNull('until', row.until === null ? null : formatDate(row.until, timeZone)),
      enumeration.orNull('event', row.event),
      boolean('only_failed', row.onlyFailed ? '1' : '0'),
      text.orNull('resource_id', row.resourceId),
      number.orNull('response_code', row.responseCode),
      text.orNull('response_body', row.responseBody),
      number('events_total', row.eventsTotal),
      { name: 'events_seen', value: row.eventsSeen, kind: 'progress', of: row.eventsTotal },
      number('events_recovered', row.eventsRecovered),
      date('date_created', formatDate(row.dateCreated, timeZone)),
      date('date_modified', formatDate(row.dateModified, timeZone)),
      date.orNull('date_ended', row.dateEnded === null ? null : formatDate(row.dateEnded, timeZone)),
    ],
  };
}
