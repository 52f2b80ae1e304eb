/** The request of a delivery as the API shows it: what went out in the last attempt, or what would go out now. */
import { addressOfEvent } from '#events/document.ts';
import { boolean, code, number, text, url, type Document } from '#hypermedia/document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { wasSent } from './reason.ts';

/** As the code that sends makes it. `headers`: each name is followed by its value. */
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

export type Preview = (asked: {
  shard: number;
  webhookId: number;
  eventId: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
}) => Promise<Previewed>;

/** Of a body so much is shown; all of it is the event's payload. */
const SHOWN_BODY_BYTES = 16 * 1024;
/** For so long after a change somebody may still have sent by the settings before it: who sends compares them every 30 s. */
const SETTLING_MS = 60_000;

/** Null where nothing has gone out yet. */
export type Last = Pick<AttemptRow, 'outcome' | 'n' | 'dateStarted' | 'responseCode' | 'responseHeaders'> | null;

export type Changes = {
  webhook: Pick<WebhookRow, 'isHeld' | 'dateCreated' | 'dateModified'>;
  storeChangedAt: Date | null;
};

const isSettled = (changedAt: Date | null, at: Date): boolean =>
  changedAt === null || changedAt.getTime() + SETTLING_MS < at.getTime();

/** An answer is kept with its headers unless something of the event was erased since. */
const isErased = ({ responseCode, responseHeaders }: NonNullable<Last>): boolean =>
  responseCode !== null && responseHeaders === null;

const WOULD_BE = 'what would be sent now, but for its time';
const CHANGED = `The webhook or its store was changed since the last attempt, or shortly before it: this is ${WOULD_BE}.`;

/** Why it is not what went out in the last attempt; null where it is. */
export const differenceOf = (last: Last, delivery: Pick<DeliveryRow, 'status'>, changes: Changes): string | null => {
  const isPending = delivery.status === 'pending';
  // Its time is when the listener was answered, and not when it was handed it.
  if (changes.webhook.isHeld) return 'This is what a listener that fetches it is handed now, but for its time.';
  if (last === null) return isPending ? 'This is what will be sent.' : `This is ${WOULD_BE}.`;
  if (!wasSent(last)) return `The last attempt did not get as far as sending it: this is ${WOULD_BE}.`;
  const { dateCreated, dateModified } = changes.webhook;
  const changedAt = dateModified > dateCreated ? dateModified : null;
  if (!isSettled(changedAt, last.dateStarted) || !isSettled(changes.storeChangedAt, last.dateStarted)) {
    return CHANGED;
  }
  return isErased(last) ? 'Something of the event was erased since: this is what is left of it.' : null;
};

/**
 * The time of a request that did not go out so, which is in what is signed: when its delivery is due, or else ended, or else was
 * made; and by which key it is signed now. The time of the look would make another answer of it each second.
 */
export const unsentAt = (
  { dateNext, dateEnded, dateCreated }: Pick<DeliveryRow, 'dateNext' | 'dateEnded' | 'dateCreated'>,
  { rotationEndsAt }: Pick<WebhookRow, 'rotationEndsAt'>,
  now: Date,
): Date => {
  const at = dateNext ?? dateEnded ?? dateCreated ?? now;
  return rotationEndsAt !== null && rotationEndsAt > at && rotationEndsAt <= now ? rotationEndsAt : at;
};

const SAME = 'This is what went out in the last attempt.';

const linesOf = (headers: readonly string[]): string =>
  Array.from({ length: headers.length / 2 }, (_, at) => `${headers[at * 2]}: ${headers[at * 2 + 1]}`).join('\n');

/** Cut between two characters. */
const cut = (body: Uint8Array): string =>
  new TextDecoder().decode(body.subarray(0, SHOWN_BODY_BYTES), { stream: body.length > SHOWN_BODY_BYTES });

const missing = (kind: 'gone' | 'nowhere' | 'unusable', { type }: Pick<DeliveryRow, 'type'>): string => {
  switch (kind) {
    case 'gone':
      return type === null
        ? 'The event is older than events are kept: what it carried is gone.'
        : 'The event was erased: what it carried is gone.';
    case 'nowhere':
      return 'The webhook has no url to send to.';
    case 'unusable':
      return 'The request cannot be made: give the webhook a new encryption_key and its url and headers again, and if that does not help, ask who runs this service.';
  }
};

const leftOut = ({ isEncrypted, isWhole, headers }: Extract<Previewed, { kind: 'made' }>): string | null => {
  if (isWhole) return null;
  if (isEncrypted) {
    return 'It travels encrypted, to other bytes and with other signatures each time: this is what is inside.';
  }
  if (headers.includes('authorization')) return 'The token of the platform is masked.';
  return 'Its signatures are left out: the app that made the webhook and the owner of the store in person see them.';
};

const HIDDEN =
  'Values of its headers and of the query of its url are hidden: the app that made the webhook and the owner of the store in person see them.';

/** `webhook`: with the url that the reader is shown. */
type Shown = {
  delivery: Pick<DeliveryRow, 'eventId' | 'type'>;
  webhook: Pick<WebhookRow, 'storeId' | 'url' | 'revision'>;
  previewed: Previewed;
  difference: string | null;
  baseUrl: string;
};

export const requestDocument = ({ delivery, webhook, previewed, difference: known, baseUrl }: Shown): Document => {
  const isMade = previewed.kind === 'made';
  // Whoever changed it between the two reads did so since the last attempt.
  const difference = known ?? (isMade && previewed.revision !== webhook.revision ? CHANGED : null);
  const length = isMade ? previewed.body.length : null;
  const isCut = length !== null && length > SHOWN_BODY_BYTES;
  const notes = isMade
    ? [
        difference ?? SAME,
        leftOut(previewed),
        previewed.isHidden ? HIDDEN : null,
        isCut ? `Of the body the first ${SHOWN_BODY_BYTES} bytes are shown.` : null,
      ]
    : [missing(previewed.kind, delivery)];
  const event = addressOfEvent({ id: delivery.eventId }, baseUrl, webhook.storeId);
  const payload = { rel: 'payload', href: `${event}/payload`, title: 'What the event carries, whole' };
  return {
    name: 'request',
    links: delivery.type === null ? [] : [payload],
    embedded: [],
    properties: [
      text('note', notes.filter((sentence) => sentence !== null).join(' ')),
      boolean('as_sent', isMade && difference === null && previewed.isWhole && !previewed.isHidden),
      text('method', 'POST'),
      url('url', webhook.url),
      code('headers', isMade ? linesOf(previewed.headers) : null),
      code('body', isMade ? cut(previewed.body) : null),
      { ...number('body_length', length), unit: 'bytes' },
    ],
  };
};
