/** The request of a delivery as the API shows it: as sent in the last attempt, or as it would be sent now. */
import { addressOfEvent } from '#events/event-document.ts';
import { boolean, code, number, text, url, type Document } from '#hypermedia/document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { wasSent } from './history-documents.ts';

/** A request made by the code that sends deliveries. `headers`: each name is followed by its value. */
export type Previewed =
  | {
      kind: 'made';
      revision: number;
      headers: readonly string[];
      body: Uint8Array;
      isEncrypted: boolean;
      isWhole: boolean;
      isHidden: boolean;
    }
  | { kind: 'gone' | 'nowhere' | 'unusable' };

export type Preview = (request: {
  shard: number;
  webhookId: number;
  eventId: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
}) => Promise<Previewed>;

/** The maximum size of the body that is shown; the event's payload is complete. */
const SHOWN_BODY_BYTES = 16 * 1024;
/** A worker may use the old settings this long after a change, because it compares them every 30 s. */
const SETTINGS_DELAY_MS = 60_000;

/** The last attempt; null if there was none. */
export type LastAttempt = Pick<AttemptRow, 'outcome' | 'n' | 'dateStarted' | 'responseCode' | 'responseHeaders'> | null;

export type Changes = {
  webhook: Pick<WebhookRow, 'isHeld' | 'dateCreated' | 'dateModified'>;
  storeChangedAt: Date | null;
};

const hasTakenEffect = (changedAt: Date | null, at: Date): boolean =>
  changedAt === null || changedAt.getTime() + SETTINGS_DELAY_MS < at.getTime();

/** Returns whether data of the event was erased: an erasure removes the headers of stored responses. */
const isErased = ({ responseCode, responseHeaders }: NonNullable<LastAttempt>): boolean =>
  responseCode !== null && responseHeaders === null;

const WOULD_BE = 'the request as it would be sent now, with another timestamp';
const CHANGED = `The webhook or its store was changed since the last attempt or shortly before: this is ${WOULD_BE}.`;

/** Returns why the shown request differs from the last attempt; null if it is the same. */
export function differenceOf(
  last: LastAttempt,
  delivery: Pick<DeliveryRow, 'status'>,
  changes: Changes,
): string | null {
  const isPending = delivery.status === 'pending';
  // The stored attempt has the time of the listener's answer, not that of the request.
  if (changes.webhook.isHeld) return 'This is the request as a listener would receive it now, with another timestamp.';
  if (last === null) return isPending ? 'This is the request that will be sent.' : `This is ${WOULD_BE}.`;
  if (!wasSent(last)) return `The last attempt failed before the request was sent: this is ${WOULD_BE}.`;
  const { dateCreated, dateModified } = changes.webhook;
  const changedAt = dateModified > dateCreated ? dateModified : null;
  if (!hasTakenEffect(changedAt, last.dateStarted) || !hasTakenEffect(changes.storeChangedAt, last.dateStarted)) {
    return CHANGED;
  }
  return isErased(last) ? 'Data of the event was erased since: this is what remains.' : null;
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

const SAME = 'This is the request of the last attempt.';

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

function omissionNote({ isEncrypted, isWhole, headers }: Extract<Previewed, { kind: 'made' }>): string | null {
  if (isWhole) return null;
  if (isEncrypted) {
    return 'The request is sent encrypted, with different bytes and signatures each time: this is its content.';
  }
  if (headers.includes('authorization')) return 'The token of the platform is masked.';
  return 'Signatures are hidden: only the app that created the webhook and the owner of the store in person see them.';
}

const HIDDEN =
  'Values of the additional headers and of the query of the url are hidden: only the app that created the webhook and the owner of the store in person see them.';

/** `webhook.url`: as the reader may see it. */
type Shown = {
  delivery: Pick<DeliveryRow, 'eventId' | 'type'>;
  webhook: Pick<WebhookRow, 'storeId' | 'url' | 'revision'>;
  previewed: Previewed;
  difference: string | null;
  baseUrl: string;
};

export type RequestView = {
  /** In which respect this is the request of the last attempt. */
  note: string;
  isAsSent: boolean;
  method: string;
  url: string | null;
  /** One `name: value` per line, in the order in which they are sent. */
  headers: string | null;
  /** At most the first `SHOWN_BODY_BYTES` of it. */
  body: string | null;
  bodyBytes: number | null;
  /** The address of the complete payload; null if the event no longer exists. */
  payload: string | null;
};

export function viewOfRequest({ delivery, webhook, previewed, difference: noted, baseUrl }: Shown): RequestView {
  const isMade = previewed.kind === 'made';
  // The webhook was changed between the two reads, thus since the last attempt.
  const difference = noted ?? (isMade && previewed.revision !== webhook.revision ? CHANGED : null);
  const length = isMade ? previewed.body.length : null;
  const isTruncated = length !== null && length > SHOWN_BODY_BYTES;
  const notes = isMade
    ? [
        difference ?? SAME,
        omissionNote(previewed),
        previewed.isHidden ? HIDDEN : null,
        isTruncated ? `Only the first ${SHOWN_BODY_BYTES} bytes of the body are shown.` : null,
      ]
    : [missingNote(previewed.kind, delivery)];
  const event = addressOfEvent({ id: delivery.eventId }, baseUrl, webhook.storeId);
  return {
    note: notes.filter((sentence) => sentence !== null).join(' '),
    isAsSent: isMade && difference === null && previewed.isWhole && !previewed.isHidden,
    method: 'POST',
    url: webhook.url,
    headers: isMade ? headerLines(previewed.headers) : null,
    body: isMade ? truncate(previewed.body) : null,
    bodyBytes: length,
    payload: delivery.type === null ? null : `${event}/payload`,
  };
}

export function requestDocument({ note, isAsSent, method, payload, ...sent }: RequestView): Document {
  const title = 'The complete payload of the event';
  return {
    name: 'request',
    links: payload === null ? [] : [{ rel: 'payload', href: payload, title }],
    embedded: [],
    properties: [
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
