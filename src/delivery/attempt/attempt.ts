/** An attempt: composes the request of a delivery, sends it once in an exchange over HTTP, and returns its outcome. */
import type { Span } from '@opentelemetry/api';
import type { Clock } from '#core/clock.ts';
import { contextOf, endSpan, isTracing, startSpan, traceIdOf } from '#core/tracing.ts';
import type { Connections, Connection, OutgoingRequest } from './http/endpoint-connections.ts';
import {
  labelOf,
  type Outcome,
  HeadTooLarge,
  isReset,
  isTooLong,
  outcomeOfError,
  type Phase,
} from './http/attempt-outcome.ts';
import { type Body, type Composer, type RequestContext, namesOf, webhookMessageId } from './attempt-request.ts';
import { ENCRYPTED_TYPE } from './bodies.ts';
import { formats } from './formats.ts';
import type { Dispatcher } from 'undici';
import type { Mask } from './delivery-target.ts';
import { Answer, type AnswerHeaders, type AnswerLimits } from './http/response.ts';

// The headers of deliveries, for the reference.

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

// One request, mostly a POST, and its response: an overall deadline, bounded reads, no redirects, no decompression.

export type ExchangeLimits = AnswerLimits & { exchangeTimeoutMs: number };

/** Measurements of an exchange on the wire. */
type Wire = {
  origin: string;
  requestBytes: number;
  /** Time until the request could be sent; null if the connection was reused or never opened. */
  connectMs: number | null;
  /** The connection had served an exchange before. */
  isReused: boolean;
  /** The request was sent twice: the first connection was closed while it was sent. */
  isRepeated: boolean;
};

export type Exchange = {
  readonly wire: Wire;
  /** Rejects only with `Aborted`, after `abort()`. */
  outcome: Promise<Outcome>;
  abort: () => void;
};

/** The exchange was aborted by this process: its result is unknown and not recorded. */
export class Aborted extends Error {}

class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

/** RFC 9110 §15.2 allows any number before the final response; a flood of them only wastes time. */
const INFORMATIONAL_RESPONSES_MAX = 32;
const SWITCHING_PROTOCOLS = 101;
/** A connection closed before the request arrived is reset one round trip after the request was written. */
const REPEAT_WITHIN_MS = 1_000;

/** `mask`: of the secrets of the request, if it has any. */
type Deps = { connections: Connections; clock: Clock; limits: ExchangeLimits; mask?: Mask | undefined };

/**
 * A class that is its own handler: one object per exchange instead of nine closures.
 */
class HttpExchange implements Exchange, Dispatcher.DispatchHandler {
  readonly outcome: Promise<Outcome>;
  readonly #deps: Deps;
  readonly #request: OutgoingRequest;
  readonly #resolve: (outcome: Outcome) => void;
  readonly #reject: (reason: Aborted) => void;
  readonly #deadline: NodeJS.Timeout;
  #connection: Connection;
  #isStarted = false;
  #isRepeat = false;
  #hasEnded = false;
  #informational = 0;
  #startedMs = 0;
  #dialStartedMs: number | undefined;
  #connectMs: number | null = null;
  #answer: Answer | undefined;

  constructor(origin: string, request: OutgoingRequest, deps: Deps) {
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
    this.outcome = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deps = deps;
    this.#request = request;
    // One timer each costs 0.13 µs of the worker's 50 per delivery. A list of deadlines behind one timer cost 0.05.
    this.#deadline = setTimeout(expire, deps.limits.exchangeTimeoutMs, this);
    this.#connection = deps.connections.take(origin);
    if (!this.#connection.hasServed) this.#dialStartedMs = deps.clock.monotonicMs();
    this.#connection.send(request, this);
  }

  get wire(): Wire {
    const { origin } = this.#connection;
    const isReused = this.#dialStartedMs === undefined;
    const isRepeated = this.#isRepeat && this.#isStarted;
    return { origin, requestBytes: this.#request.body.length, connectMs: this.#connectMs, isReused, isRepeated };
  }

  abort(): void {
    if (this.#hasEnded) return;
    this.#close();
    this.#reject(new Aborted());
  }

  /** Ends the exchange with the outcome of the error and closes the connection. */
  fail(error: Error): void {
    if (this.#hasEnded) return;
    const phase = this.#phase();
    this.#close();
    this.#resolve(outcomeOfError(error, phase));
  }

  onRequestStart(): void {
    this.#startedMs = this.#deps.clock.monotonicMs();
    if (this.#dialStartedMs !== undefined) this.#connectMs = this.#startedMs - this.#dialStartedMs;
    if (this.#request.mayBegin()) this.#isStarted = true;
    else this.abort();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (this.#hasEnded) return;
    const { limits, mask } = this.#deps;
    if (status >= 200) {
      this.#answer = new Answer(status, headers, limits, mask);
      return;
    }
    this.#informational += 1;
    // No other protocol was requested, so a 101 is a refusal.
    if (status === SWITCHING_PROTOCOLS) this.#finish(new Answer(status, headers, limits, mask));
    else if (this.#informational > INFORMATIONAL_RESPONSES_MAX) this.fail(new HeadTooLarge('too many 1xx'));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#hasEnded || this.#answer === undefined) return;
    this.#connection.countBody(chunk.length);
    if (this.#answer.add(chunk)) this.#finish(this.#answer);
  }

  onResponseEnd(): void {
    if (this.#hasEnded || this.#answer === undefined) return;
    this.#hasEnded = true;
    clearTimeout(this.#deadline);
    this.#deps.connections.release(this.#connection);
    this.#resolve(this.#answer.outcome(this.#deps.clock.now()));
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#hasEnded) return;
    // The status has arrived and decides.
    if (this.#answer !== undefined && isTooLong(error)) this.#finish(this.#answer);
    else if (this.#mayRepeat(error)) this.#repeat();
    else this.fail(error);
  }

  /**
   * Returns whether the request may be sent again on a new connection: the endpoint may have closed an idle connection
   * at the moment of writing, which is not a failure. The endpoint may receive it twice, with the same webhook-id,
   * which at-least-once delivery permits. Not on a new connection, after any byte of a response, or later than a
   * second, when the endpoint probably has processed the request.
   */
  #mayRepeat(error: Error): boolean {
    if (!isReset(error) || !this.#isStarted || !this.#connection.hasServed || this.#connection.hasReceived)
      return false;
    return this.#deps.clock.monotonicMs() - this.#startedMs <= REPEAT_WITHIN_MS;
  }

  #repeat(): void {
    const { connections } = this.#deps;
    connections.drop(this.#connection);
    this.#isRepeat = true;
    this.#isStarted = false;
    this.#dialStartedMs = this.#deps.clock.monotonicMs();
    this.#connection = connections.open(this.#connection.origin);
    this.#connection.send(this.#request, this);
  }

  /** Ends the exchange with the response so far; the rest is not read. */
  #finish(answer: Answer): void {
    this.#close();
    this.#resolve(answer.outcome(this.#deps.clock.now()));
  }

  #close(): void {
    this.#hasEnded = true;
    clearTimeout(this.#deadline);
    this.#deps.connections.drop(this.#connection);
  }

  #phase(): Phase {
    const { step, hasUnsent } = this.#connection;
    if (step !== 'open') return step;
    if (this.#answer !== undefined) return 'body';
    return this.#isStarted && !hasUnsent ? 'answer' : 'send';
  }
}

const expire = (exchange: HttpExchange): void => exchange.fail(new TimedOut());

/** Starts the exchange with an origin such as `https://example.com:8443`. */
export function startExchange(origin: string, request: OutgoingRequest, deps: Deps): Exchange {
  return new HttpExchange(origin, request, deps);
}

// Attempts.

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
