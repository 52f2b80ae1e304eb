/** The resource of one delivery, with its attempts, its request and what it waits for. */
import type { WebhookRow } from '../webhook-sql.ts';
import { findDelivery } from './deliveries-sql.ts';
import {
  type DeliveryRow,
  type AttemptRow,
  type Owner,
  attemptsAt,
  newestAttemptOf,
  precedingOf,
  storeChangedAt,
} from './history-sql.ts';
import { isTest } from '#catalog/catalog.ts';
import type { Queryable } from '#db/pool.ts';
import { guarded, type ApiRequest, type Operation, type AddressedRequest } from '#http/operation.ts';
import { number, text, viewType, type Document, type Link, type Property } from '#hypermedia/document.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import {
  maySendTo,
  READ_SCOPES,
  seesHistory,
  showsRequestSecrets,
  visibleRequest,
  webhookOf,
  type WebhookDeps,
} from '../webhook-access.ts';
import { addressOfWebhook, breadcrumbLinks } from '../webhook-document.ts';
import {
  addressOfDelivery,
  addressOfRequest,
  ATTEMPT,
  attemptDocument,
  deliveryDocument,
  reasonOf,
  type DeliveryView,
  viewOfDelivery,
} from './history-documents.ts';
import { formatDate } from '#hypermedia/date.ts';
import { onlyValue } from '#hypermedia/paging.ts';
import {
  compare,
  previewTime,
  requestDocument,
  viewOfRequest,
  type Previewed,
  type RequestView,
} from './delivery-request.ts';

type AttemptsMaxOf = WebhookDeps['attemptsMaxOf'];
type Waiting = Pick<DeliveryRow, 'status' | 'attempts' | 'dateNext'>;
type Webhook = Pick<WebhookRow, 'isHeld' | 'pausedUntil' | 'heldUntil' | 'consecutiveFailures'>;

const isAfter = (at: Date | null, now: Date): at is Date => at !== null && at > now;

/** What a pending delivery waits for. `attempt`: only the time of its next attempt. */
type Awaited = {
  kind: 'listener' | 'preceding' | 'queue' | 'attempt' | 'pause' | 'repair';
  text: string;
};

/**
 * Returns what a pending delivery waits for, namely the condition that ends last; null if it is not pending. `lastFailure` is that of
 * its webhook: the delivery itself need not have been attempted.
 */
function waitsFor(
  { status, attempts, dateNext }: Waiting,
  webhook: Webhook,
  { lastFailure, preceding, now }: { lastFailure: string | null; preceding: number | null; now: Date },
): Awaited | null {
  if (status !== 'pending') return null;
  if (webhook.isHeld) return { kind: 'listener', text: 'A listener that fetches it.' };
  if (preceding !== null) {
    return { kind: 'preceding', text: `The end of delivery ${preceding}, the one before it of the same resource.` };
  }
  if (!isAfter(dateNext, now)) {
    return { kind: 'queue', text: 'The deliveries before it, and the rate limit (rate_per_second).' };
  }
  const { heldUntil, pausedUntil, consecutiveFailures } = webhook;
  if (!isAfter(heldUntil, now) || heldUntil < dateNext) {
    const next = attempts === 0 ? 'its first attempt' : `attempt ${attempts + 1}`;
    return { kind: 'attempt', text: `The time of ${next}.` };
  }
  if (pausedUntil?.getTime() === heldUntil.getTime()) {
    return { kind: 'pause', text: 'The end of the pause that your endpoint asked for by Retry-After.' };
  }
  const rule = `A response of your endpoint to another delivery: after ${consecutiveFailures} consecutive failures, one at a time is attempted.`;
  return { kind: 'repair', text: lastFailure === null ? rule : `${rule} Last failure: ${lastFailure}` };
}

/** More attempts than any delivery has. */
const ATTEMPTS_SHOWN_MAX = 50;

/** The page of a pending delivery reloads often if the next attempt is near, otherwise rarely. */
const SOON_MS = 60_000;
const REFRESH_SOON_SECONDS = 3;
const REFRESH_SECONDS = 30;

export function ownerOf({ id, storeId, epoch, heldUntil }: WebhookRow): Owner {
  return {
    shard: shardOf(id),
    storeId,
    id,
    epoch,
    heldUntil,
  };
}

/** Returns the delivery of the webhook with this id; undefined if it does not exist or has expired. */
export function deliveryWith(sql: Queryable, webhook: WebhookRow, id: number): Promise<DeliveryRow | undefined> {
  return findDelivery(sql, ownerOf(webhook), id);
}

/** Returns the delivery in the path. Throws a 404 if the webhook has no such delivery, or the caller does not see it. */
export async function deliveryOf(
  sql: Queryable,
  webhook: WebhookRow,
  { params, principal }: AddressedRequest,
): Promise<DeliveryRow> {
  const id = parseId(params['delivery_id'] ?? '');
  const row = id === undefined || !seesHistory(principal, webhook) ? undefined : await deliveryWith(sql, webhook, id);
  if (row === undefined) throw notFound('delivery');
  return row;
}

/** Returns whether the delivery can be resent: it is not pending, and the payload of its event exists. */
const isResendable = ({ status, type, action }: DeliveryRow, { kind }: Previewed): boolean =>
  status !== 'pending' && type !== null && !isTest(action) && kind !== 'gone';

function refreshSeconds({ status, dateNext }: DeliveryRow, now: Date): number | undefined {
  if (status !== 'pending') return undefined;
  const waitsMs = (dateNext?.getTime() ?? 0) - now.getTime();
  return waitsMs < SOON_MS ? REFRESH_SOON_SECONDS : REFRESH_SECONDS;
}

function linksOf({ row, webhook, previewed, isSendable, preceding = null, baseUrl }: DeliveryDetails): Link[] {
  const statuses = `${addressOfWebhook(webhook.id, baseUrl)}/statuses`;
  const self = addressOfDelivery(row.id, webhook, baseUrl);
  return [
    ...breadcrumbLinks(webhook, baseUrl),
    { rel: 'statuses', href: statuses, title: 'All deliveries of the webhook', crumb: 'Deliveries' },
    ...(preceding === null
      ? []
      : [
          {
            rel: 'preceding',
            href: addressOfDelivery(preceding, webhook, baseUrl),
            title: 'The delivery that it waits for',
          },
        ]),
    ...(isSendable && row.status === 'pending' && !webhook.isHeld
      ? [{ rel: 'retry', href: `${self}/retry`, title: 'Retry it now' }]
      : []),
    ...(isSendable && isResendable(row, previewed)
      ? [{ rel: 'resend', href: `${self}/resend`, title: 'Send it again' }]
      : []),
  ];
}

export type DeliveryDetails = {
  row: DeliveryRow;
  webhook: WebhookRow;
  attempts: readonly AttemptRow[];
  request: RequestView;
  previewed: Previewed;
  /** The reader may make Halcyon send it again. */
  isSendable: boolean;
  /** The reason of the last failed attempt of the webhook, if it is failing. */
  lastFailure?: string | null;
  /** The id of the pending delivery that it waits for, if its webhook has an ordering. */
  preceding?: number | null;
  /** The delivery that sent its event again. */
  resent?: DeliveryRow | undefined;
  attemptsMaxOf: AttemptsMaxOf;
  baseUrl: string;
  now: Date;
};

/** Returns what pages show of an attempt. `request`: the address of the delivery with the request of this attempt. */
function viewOfAttempt(row: AttemptRow, webhook: WebhookRow, baseUrl: string) {
  const { n, outcome, durationMs, responseCode, responseBody, responseHeaders } = row;
  const date = formatDate(row.dateStarted, webhook.timeZone);
  const request = addressOfRequest(row, webhook, baseUrl);
  return { n, request, outcome, reason: reasonOf(row), date, durationMs, responseCode, responseBody, responseHeaders };
}

export type AttemptView = ReturnType<typeof viewOfAttempt>;

export type DetailedView = DeliveryView & {
  /**
   * The number of attempts after which it fails, with the retry profile that the webhook has now; null if it is not pending, or waits for a
   * listener, whose answers have no schedule.
   */
  attemptsMax: number | null;
  waitsFor: Awaited | null;
  /** The delivery that sent its event again. */
  resent: DeliveryView | null;
  /** The last attempts, oldest first. */
  tried: readonly AttemptView[];
  request: RequestView;
};

export const detailedView = viewType<DetailedView>('detailed');

/** Returns the Document of a delivery with attempts, request, `attempts_max` and `waits_for`, which lists omit. */
export function detailedDelivery(details: DeliveryDetails): Document {
  const {
    row,
    webhook,
    attempts,
    request,
    lastFailure = null,
    preceding = null,
    resent,
    attemptsMaxOf,
    baseUrl,
    now,
  } = details;
  const document = deliveryDocument(row, webhook, baseUrl);
  const seconds = refreshSeconds(row, now);
  const view: DetailedView = {
    ...viewOfDelivery(row, webhook),
    attemptsMax: row.status === 'pending' && !webhook.isHeld ? attemptsMaxOf(webhook.retryProfile) : null,
    waitsFor: waitsFor(row, webhook, { lastFailure, preceding, now }),
    resent: resent === undefined ? null : viewOfDelivery(resent, webhook),
    tried: attempts.map((attempt) => viewOfAttempt(attempt, webhook, baseUrl)),
    request,
  };
  const added: Readonly<Record<string, Property[]>> = {
    attempts: [number.orNull('attempts_max', view.attemptsMax)],
    date_next: [text.orNull('waits_for', view.waitsFor?.text ?? null)],
  };
  return {
    ...document,
    ...(seconds !== undefined && { refreshSeconds: seconds }),
    links: [...document.links.filter(({ rel }) => rel !== 'webhook'), ...linksOf(details)],
    properties: document.properties.flatMap((property) => [property].concat(added[property.name] ?? [])),
    embedded: [
      {
        rel: 'logs',
        documents: attempts.map((attempt) => attemptDocument(attempt, webhook, baseUrl)),
        isTimeline: true,
        title: 'Attempts',
      },
      { rel: 'request', documents: [requestDocument(request)], single: true },
    ],
    ...detailedView.attach(view),
  };
}

const READS_MAX = 3;

/**
 * Returns the delivery in the path and its last attempts. Throws a 404 like `deliveryOf`. An attempt may be recorded between the two
 * statements; then both are read again, so that a delivery is not pending beside the attempt that ended it.
 */
async function deliveryWithAttempts(
  sql: Queryable,
  webhook: WebhookRow,
  request: AddressedRequest,
  reads = 1,
): Promise<{ row: DeliveryRow; attempts: AttemptRow[] }> {
  const row = await deliveryOf(sql, webhook, request);
  const attempts = await attemptsAt(sql, ownerOf(webhook), row.id, ATTEMPTS_SHOWN_MAX);
  const isOutdated = attempts.some(({ n }) => n > row.attempts);
  return isOutdated && reads < READS_MAX ? deliveryWithAttempts(sql, webhook, request, reads + 1) : { row, attempts };
}

/** Returns the attempt that the query names, by default the last one; null if there was none. Throws a 404 if there is no such attempt. */
function requestedAttempt(query: URLSearchParams, attempts: readonly AttemptRow[]): AttemptRow | null {
  const faults: Fault[] = [];
  const value = onlyValue(query, ATTEMPT, faults);
  if (faults.length > 0) throw invalid(...faults);
  if (value === undefined) return attempts.at(-1) ?? null;
  const attempt = attempts.find(({ n }) => String(n) === value);
  if (attempt === undefined) throw notFound('attempt');
  return attempt;
}

/** Reads the details of a delivery and returns its Document. */
async function showDelivery(
  { sql, sealer, preview, attemptsMaxOf, config: { baseUrl } }: WebhookDeps,
  request: ApiRequest,
): Promise<Document> {
  const webhook = await webhookOf(sql, request);
  const { principal, now } = request;
  const owner = ownerOf(webhook);
  const { row, attempts } = await deliveryWithAttempts(sql, webhook, request);
  const isPending = row.status === 'pending';
  const [changedAt, newest, preceding, resent] = await Promise.all([
    storeChangedAt(sql, owner),
    isPending && webhook.consecutiveFailures > 0 ? newestAttemptOf(sql, owner) : undefined,
    isPending && webhook.ordering !== null ? precedingOf(sql, owner, row.id) : null,
    row.resentAs === null ? undefined : findDelivery(sql, owner, row.resentAs),
  ]);
  const shownAttempt = requestedAttempt(request.query, attempts);
  const comparison = compare(shownAttempt, row, { webhook, storeChangedAt: changedAt });
  const previewed = await preview({
    shard: owner.shard,
    webhookId: webhook.id,
    eventId: row.eventId,
    revision: (comparison.sentAt && shownAttempt?.revision) ?? webhook.revision,
    attempt: Math.max(1, shownAttempt?.n ?? 0),
    now: comparison.sentAt ?? previewTime(row, webhook, now),
    seesKey: showsRequestSecrets(principal, webhook),
  });
  const used = previewed.kind === 'nowhere' ? webhook : { ...webhook, ...previewed.columns };
  const { url } = visibleRequest({ sealer }, used, principal);
  const shown = { storeId: webhook.storeId, url };
  const attempt = shownAttempt?.n ?? null;
  const sent = viewOfRequest({ delivery: row, webhook: shown, previewed, comparison, attempt, baseUrl });
  return detailedDelivery({
    row,
    webhook,
    attempts,
    request: sent,
    previewed,
    isSendable: maySendTo(principal, webhook),
    lastFailure: (newest && reasonOf(newest)?.text) ?? null,
    preceding,
    resent,
    attemptsMaxOf,
    baseUrl,
    now,
  });
}

export function createReadDelivery(deps: WebhookDeps): Operation {
  return guarded({
    title: 'This delivery',
    summary: 'One delivery: its attempts, the reason of a failure, what it waits for, and its request',
    scopes: READ_SCOPES,
    modifiers: [ATTEMPT],
    handle: async (request) => ({ status: 200, document: await showDelivery(deps, request) }),
  });
}
