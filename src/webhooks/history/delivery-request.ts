/** The request of a delivery as the API shows it: as sent in an attempt, or as it would be sent now. */
import { isTracing } from '#core/tracing.ts';
import { addressOfEvent } from '#events/operations.ts';
import { boolean, code, number, text, url, type Document } from '#hypermedia/document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { wasSent } from './history-documents.ts';

/** The sealed columns with the url. `isOther`: those at the requested revision are not kept, so the present settings were used. */
type Used = { columns: Pick<WebhookRow, 'url' | 'headers' | 'requestSecrets'>; isOther: boolean };

/** A request made by the code that sends deliveries. `headers`: each name is followed by its value. */
type Made = Used & { kind: 'made'; headers: readonly string[]; body: Uint8Array } & Record<
    'isEncrypted' | 'isWhole' | 'isRekeyed' | 'isHidden',
    boolean
  >;

export type Previewed = Made | (Used & { kind: 'gone' | 'unusable' }) | { kind: 'nowhere' };

export type Preview = (request: {
  shard: number;
  webhookId: number;
  eventId: number;
  /** That of the webhook with whose settings it was sent. */
  revision: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
}) => Promise<Previewed>;

/** The maximum size of the body that is shown; the event's payload is complete. */
const SHOWN_BODY_BYTES = 16 * 1024;
/** A worker may use the old settings this long after a change, because it compares them every 30 s. */
const SETTINGS_DELAY_MS = 60_000;

/** The attempt whose request is shown; null if there was none. */
type ShownAttempt = Pick<
  AttemptRow,
  'outcome' | 'n' | 'dateStarted' | 'responseCode' | 'responseHeaders' | 'revision'
> | null;

export type Changes = {
  webhook: Pick<WebhookRow, 'isHeld' | 'dateCreated' | 'dateModified'>;
  storeChangedAt: Date | null;
};

const hasTakenEffect = (changedAt: Date | null, at: Date): boolean =>
  changedAt === null || changedAt.getTime() + SETTINGS_DELAY_MS < at.getTime();

/** Returns whether data of the event was erased: an erasure removes the headers of stored responses. */
const isErased = ({ responseCode, responseHeaders }: NonNullable<ShownAttempt>): boolean =>
  responseCode !== null && responseHeaders === null;

const WOULD_BE = 'the request as it would be sent now, with another timestamp';
const CHANGED = `The webhook or its store was changed since the attempt or shortly before: this is ${WOULD_BE}.`;

/** How the shown request differs from that of an attempt. `sentAt`: when it was sent, if it is made with the settings of the attempt. */
type Comparison = { note: string; isSame: boolean; sentAt: Date | null };

const another = (note: string): Comparison => ({ note, isSame: false, sentAt: null });

/** Compares the request with that of the attempt. Without the revision of an attempt, its settings are known only if nothing has changed. */
export function compare(attempt: ShownAttempt, { status }: Pick<DeliveryRow, 'status'>, changes: Changes): Comparison {
  // The stored attempt has the time of the listener's answer, not that of the request.
  if (changes.webhook.isHeld)
    return another('This is the request as a listener would receive it now, with another timestamp.');
  if (attempt === null)
    return another(status === 'pending' ? 'This is the request that will be sent.' : `This is ${WOULD_BE}.`);
  const { n, revision, dateStarted: sentAt } = attempt;
  const isKnown = revision !== null;
  if (!wasSent(attempt))
    return isKnown
      ? { note: `Attempt ${n} failed before this request was sent.`, isSame: false, sentAt }
      : another(`Attempt ${n} failed before the request was sent: this is ${WOULD_BE}.`);
  const { dateCreated, dateModified } = changes.webhook;
  const changedAt = dateModified > dateCreated ? dateModified : null;
  if (!isKnown && !hasTakenEffect(changedAt, sentAt)) return another(CHANGED);
  if (!hasTakenEffect(changes.storeChangedAt, sentAt))
    return isKnown
      ? { note: `This is the request of attempt ${n}, with the present domain of the store.`, isSame: false, sentAt }
      : another(CHANGED);
  if (isErased(attempt))
    return { note: 'Data of the event was erased since: this is what remains.', isSame: false, sentAt };
  return { note: `This is the request of attempt ${n}.`, isSame: true, sentAt };
}

/**
 * Returns the signed timestamp of a request that was not sent like this: when the delivery is due, ended or was created, but not
 * before the end of a rotation, so that the current key signs. The current time would change the ETag every second.
 */
export function previewTime(
  { dateNext, dateEnded, dateCreated }: Pick<DeliveryRow, 'dateNext' | 'dateEnded' | 'dateCreated'>,
  { rotationEndsAt }: Pick<WebhookRow, 'rotationEndsAt'>,
  now: Date,
): Date {
  const at = dateNext ?? dateEnded ?? dateCreated ?? now;
  return rotationEndsAt !== null && rotationEndsAt > at && rotationEndsAt <= now ? rotationEndsAt : at;
}

const headerLines = (headers: readonly string[]): string =>
  Array.from({ length: headers.length / 2 }, (_, at) => `${headers[at * 2]}: ${headers[at * 2 + 1]}`).join('\n');

/** Returns the body as text, truncated at a character boundary. */
const truncate = (body: Uint8Array): string =>
  new TextDecoder().decode(body.subarray(0, SHOWN_BODY_BYTES), { stream: body.length > SHOWN_BODY_BYTES });

function missingNote(kind: 'gone' | 'nowhere' | 'unusable', { type }: Pick<DeliveryRow, 'type'>): string {
  switch (kind) {
    case 'gone':
      return type === null
        ? 'The event has expired: its payload was deleted.'
        : 'The event was erased: its payload was deleted.';
    case 'nowhere':
      return 'The webhook has no url.';
    case 'unusable':
      return 'The request cannot be made: set encryption_key, url and headers of the webhook again. If that does not help, contact the operator of this service.';
  }
}

function omissionNote({ isEncrypted, isWhole, isRekeyed, headers }: Made): string | null {
  if (isWhole) return null;
  if (isEncrypted) {
    return 'The request is sent encrypted, with different bytes and signatures each time: this is its content.';
  }
  if (headers.includes('authorization')) return 'The token of the platform is masked.';
  if (isRekeyed) return 'Signatures are left out, because the key may have been replaced since.';
  return 'Signatures are hidden: only the app that created the webhook and the owner of the store in person see them.';
}

const HIDDEN =
  'Values of the additional headers and of the query of the url are hidden: only the app that created the webhook and the owner of the store in person see them.';

const TRACED = 'The span id of traceparent is known to the collector of the operator only.';

/** `webhook.url`: as the reader may see it. */
type Shown = {
  delivery: Pick<DeliveryRow, 'eventId' | 'type'>;
  webhook: Pick<WebhookRow, 'storeId' | 'url'>;
  previewed: Previewed;
  comparison: Comparison;
  /** The number of the shown attempt; null if there was none. */
  attempt: number | null;
  baseUrl: string;
};

/** Returns what pages and the representation show of a request. */
export function viewOfRequest({ delivery, webhook, previewed, comparison, attempt, baseUrl }: Shown) {
  const isMade = previewed.kind === 'made';
  const { note, isSame } = isMade && previewed.isOther ? another(CHANGED) : comparison;
  const length = isMade ? previewed.body.length : null;
  const isTruncated = length !== null && length > SHOWN_BODY_BYTES;
  const notes = isMade
    ? [
        note,
        omissionNote(previewed),
        previewed.isHidden ? HIDDEN : null,
        isTracing ? TRACED : null,
        isTruncated ? `Only the first ${SHOWN_BODY_BYTES} bytes of the body are shown.` : null,
      ]
    : [missingNote(previewed.kind, delivery)];
  const event = addressOfEvent({ id: delivery.eventId }, baseUrl, webhook.storeId);
  return {
    attempt,
    // In which respect this is the request of the attempt.
    note: notes.filter((sentence) => sentence !== null).join(' '),
    isAsSent: isMade && isSame && previewed.isWhole && !previewed.isHidden && !isTracing,
    method: 'POST',
    url: webhook.url,
    // One `name: value` per line, in the order in which they are sent.
    headers: isMade ? headerLines(previewed.headers) : null,
    body: isMade ? truncate(previewed.body) : null,
    bodyBytes: length,
    // The address of the complete payload; null if the event no longer exists.
    payload: delivery.type === null ? null : `${event}/payload`,
  };
}

export type RequestView = ReturnType<typeof viewOfRequest>;

export function requestDocument({ attempt, note, isAsSent, method, payload, ...sent }: RequestView): Document {
  const title = 'The complete payload of the event';
  return {
    name: 'request',
    links: payload === null ? [] : [{ rel: 'payload', href: payload, title }],
    embedded: [],
    properties: [
      number.orNull('attempt', attempt),
      text('note', note),
      boolean('as_sent', isAsSent),
      text('method', method),
      url.orNull('url', sent.url),
      code.orNull('headers', sent.headers),
      code.orNull('body', sent.body),
      { ...number.orNull('body_length', sent.bodyBytes), unit: 'bytes' },
    ],
  };
}
