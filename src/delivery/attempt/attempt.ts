/** An attempt: composes the request of a delivery, sends it once, and returns its outcome. */
import type { Span } from '@opentelemetry/api';
import type { Clock } from '#core/clock.ts';
import { contextOf, endSpan, isTracing, startSpan, traceIdOf } from '#core/tracing.ts';
import type { Connections } from './http/endpoint-connections.ts';
import { startExchange, type ExchangeLimits, type Wire } from './http/exchange.ts';
import { labelOf, type Outcome } from './http/attempt-outcome.ts';
import { type Body, type Composer, type RequestContext, namesOf, webhookMessageId } from './attempt-request.ts';
import { ENCRYPTED_TYPE } from './bodies.ts';
import { formats } from './formats.ts';

/** A header of every delivery, or of some. */
export type HeaderDoc = { name: string; about: string; type: 'string' | 'integer'; isOptional?: true };

/** The requests of webhooks with the format `json`, for the reference. */
type DeliveryDoc = {
  headers: readonly HeaderDoc[];
  contentType: string;
  /** The media type over plain http. */
  encryptedType: string;
};

const doc = (name: string, about: string): HeaderDoc => ({ name, about, type: 'string' });
const integer = (name: string, about: string): HeaderDoc => ({ name, about, type: 'integer' });

function headerDocs(prefix: string): HeaderDoc[] {
  const name = namesOf(prefix);
  return [
    doc(name.event, 'The event, such as transaction/created; <resource>/refeed for a resource that is sent again.'),
    doc(
      name.signature,
      'HMAC-SHA256 of the raw body in lower-case hex; the key is the whole string encryption_key in UTF-8. Absent with an Ed25519 key.',
    ),
    { ...doc(name.nextSignature, 'Only during a key rotation: the same with the new key.'), isOptional: true },
    integer(name.version, 'Higher for each newer version of the resource: ignore one older than yours.'),
    integer(name.attempt, '1 for the first attempt.'),
    doc(name.refeed, 'true if the resource was sent again on request, otherwise false.'),
    {
      ...doc(name.test, 'true in a test delivery, whose webhook-id begins with msg_test_: do not act on its event.'),
      isOptional: true,
    },
    integer(name.storeId, 'The id of the store.'),
    doc(name.storeDomain, 'The domain of the store; empty if the store was erased.'),
    {
      ...doc(
        'traceparent',
        'W3C Trace Context, if the event was published with one: its trace id, and a new span id in each attempt.',
      ),
      isOptional: true,
    },
    { ...doc('tracestate', 'As the event was published with it.'), isOptional: true },
    doc('webhook-id', 'The same in every attempt to deliver one event to one webhook: drop duplicates.'),
    integer('webhook-timestamp', 'The time of the attempt, in seconds since 1970: refuse one five minutes away.'),
    doc(
      'webhook-signature',
      'v1 and the HMAC-SHA256 of id.timestamp.body in base64 (Standard Webhooks); several are separated by blanks. If the key is whsec_ and base64, the decoded bytes are the key. With an Ed25519 key v1a and its signature of the same.',
    ),
  ];
}

const requestOriginDoc = doc('webhook-request-origin', 'The name of this service, which the endpoint has allowed.');

/** Returns the documentation with the header names of the operator. `isOriginSent`: endpoints have to answer the handshake. */
export function deliveryDoc(headerPrefix: string, { isOriginSent = false } = {}): DeliveryDoc {
  return {
    headers: [...headerDocs(headerPrefix), ...(isOriginSent ? [requestOriginDoc] : [])],
    contentType: formats.json.contentType,
    encryptedType: ENCRYPTED_TYPE,
  };
}

/**
 * An attempt that has ended. `revision`: that of the webhook with whose settings its request was made. It and `wire` are absent if no
 * request was started. `traceId`: that of its trace headers.
 */
export type Attempt = {
  startedAt: Date;
  durationMs: number;
  outcome: Outcome;
  revision?: number;
  wire?: Wire;
  traceId?: string | undefined;
};

export type RunningAttempt = {
  /** Null after `abort()`: the result is unknown and not recorded. Never rejects. */
  readonly ended: Promise<Attempt | null>;
  abort: () => void;
};

export type AttemptDeps = { composer: Composer; connections: Connections; clock: Clock; settings: ExchangeLimits };

/** The origin of the url is named, and not its path and query, which contain secrets. */
function startAttemptSpan({ target: { url }, webhookId, attempt: n }: Omit<RequestContext, 'now'>, { event }: Body) {
  const attributes = {
    'http.request.method': 'POST',
    'url.scheme': url.protocol.slice(0, -1),
    'server.address': url.hostname,
    'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
    'messaging.message.id': webhookMessageId(event, webhookId),
    'halcyon.attempt': n,
    'halcyon.event': `${event.type}/${event.action}`,
    'halcyon.webhook.id': webhookId,
  };
  return startSpan({ name: 'POST', kind: 'CLIENT', parent: event.traceContext, attributes });
}

function endAttemptSpan(span: Span | undefined, outcome: Outcome): void {
  const code = outcome.reply?.code;
  const error = outcome.kind === 'delivered' ? undefined : String(code ?? labelOf(outcome));
  endSpan(span, error, code === undefined ? {} : { 'http.response.status_code': code });
}

/**
 * Starts the attempt before it returns. `mayBegin` is called when the connection is open, before the first byte. Throws
 * if the request cannot be composed.
 */
export function attempt(
  context: Omit<RequestContext, 'now'>,
  body: Body,
  mayBegin: () => boolean,
  { composer, connections, clock, settings }: AttemptDeps,
): RunningAttempt {
  const startedAt = clock.now();
  const startedMs = clock.monotonicMs();
  const { url, origin, mask, revision } = context.target;
  const span = isTracing ? startAttemptSpan(context, body) : undefined;
  const traceContext = span && contextOf(span);
  const traceId = traceIdOf(traceContext ?? body.event.traceContext);
  const message = composer.compose({ ...context, now: startedAt, traceContext }, body);
  const request = { path: url.pathname + url.search, ...message, mayBegin };
  const exchange = startExchange(origin, request, { connections, clock, limits: settings, mask });
  return {
    ended: exchange.outcome.then(
      (outcome) => {
        const durationMs = clock.monotonicMs() - startedMs;
        endAttemptSpan(span, outcome);
        return { startedAt, durationMs, outcome, revision, wire: exchange.wire, traceId };
      },
      // Only an aborted exchange is rejected.
      () => {
        endSpan(span, 'aborted');
        return null;
      },
    ),
    abort: () => exchange.abort(),
  };
}

/** Returns an attempt that this process could not make. `threw`: its delivery itself cannot be sent. */
export function unsentAttempt(kind: 'internal' | 'threw', why: unknown, now: Date): Attempt {
  return { startedAt: now, durationMs: 0, outcome: { kind, why: String(why), reply: null } };
}

/** The columns of the only attempt of a delivery, and the state in which the delivery ends. */
export type AttemptRow = {
  state: 'successful' | 'failed';
  startedAt: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
  /** The revision of the webhook; null if no request was made. */
  revision: number | null;
};

export function rowOf({ startedAt, durationMs, outcome, revision }: Attempt): AttemptRow {
  const { kind, reply } = outcome;
  return {
    state: kind === 'delivered' ? 'successful' : 'failed',
    startedAt,
    durationMs: Math.round(durationMs),
    outcome: labelOf(outcome),
    responseCode: reply?.code ?? null,
    responseHeaders: reply?.headers ?? null,
    responseBody: reply?.body ?? null,
    revision: revision ?? null,
  };
}
