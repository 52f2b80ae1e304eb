/** A recovery of what a webhook missed: its properties and its Document. */
import { comparisonsOf, propertiesOf, type Fields } from '#http/field-table.ts';
import { formatDate } from '#hypermedia/date.ts';
import { viewType, type Document } from '#hypermedia/document.ts';
import { addressOfWebhook, breadcrumbLinks } from '../webhook-document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { RecoveryRow } from './recovery-sql.ts';

export const recoveryFields = {
  id: { kind: 'number' },
  webhook_id: { kind: 'number' },
  state: {
    kind: 'enumeration',
    choices: ['waiting', 'running', 'finished', 'cancelled', 'stopped'],
    from: 'sql',
  },
  since: { kind: 'date' },
  until: { kind: 'date', isNullable: true },
  event: { kind: 'enumeration', isNullable: true },
  only_failed: { kind: 'flag' },
  resource_id: { kind: 'text', isNullable: true },
  response_code: { kind: 'number', isNullable: true },
  response_body: { kind: 'text', isNullable: true },
  loaded: { kind: 'flag', from: 'sql' },
  events_total: { kind: 'number' },
  events_seen: { kind: 'number' },
  events_recovered: { kind: 'number' },
  date_created: { kind: 'date' },
  date_modified: { kind: 'date' },
  date_ended: { kind: 'date', isNullable: true },
} as const satisfies Fields;

export const RECOVERY_PROPERTIES = comparisonsOf(recoveryFields);
const describe = propertiesOf(recoveryFields);

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

/** Returns what pages show of a recovery. */
function viewOf(row: RecoveryRow, timeZone: string) {
  const { state, event, resourceId, responseCode, responseBody, onlyFailed, loaded } = row;
  const dateOf = (at: Date | null) => at && formatDate(at, timeZone);
  return {
    state,
    event,
    resourceId,
    responseCode,
    responseBody,
    since: formatDate(row.since, timeZone),
    until: dateOf(row.until),
    created: formatDate(row.dateCreated, timeZone),
    ended: dateOf(row.dateEnded),
    isOnlyFailed: onlyFailed,
    // It sends resources of a loaded history, and counts these.
    isLoaded: loaded,
    total: row.eventsTotal,
    seen: row.eventsSeen,
    recovered: row.eventsRecovered,
  };
}

export type RecoveryView = ReturnType<typeof viewOf>;
export const recoveryView = viewType<RecoveryView>('recovery');

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
    ...recoveryView.attach(viewOf(row, timeZone)),
    ...(isOpen(row) && { refreshSeconds: REFRESH_SECONDS }),
    properties: describe(row, timeZone, {}).map((property) =>
      property.name === 'events_seen' ? Object.assign(property, { kind: 'progress', of: row.eventsTotal }) : property,
    ),
  };
}
