/**
 * Requests to addresses that people name, through the outbound guard, each over a connection of its own, in processes that serve the API:
 * for small documents, and handshakes with endpoints.
 */
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { Connections, type ConnectionSettings, type OutgoingRequest } from './http/endpoint-connections.ts';
import { startExchange, type Exchange, type ExchangeLimits } from './attempt.ts';
import { type Outcome, isInternalError, labelOf } from './http/attempt-outcome.ts';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Clock } from '#core/clock.ts';

// One request.

export type SingleRequestSettings = Omit<ConnectionSettings, 'idleSockets'> & ExchangeLimits & { userAgent: string };

export class SingleRequests implements Running {
  readonly #runtime: Pick<Runtime, 'guard' | 'clock'>;
  readonly #settings: SingleRequestSettings;
  readonly #connections: Connections;
  readonly #running = new Set<Exchange>();
  #isStopping = false;

  constructor(runtime: Pick<Runtime, 'guard' | 'clock'>, settings: SingleRequestSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#connections = new Connections(runtime, { ...settings, idleSockets: 0 });
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** The number of requests that are under way. */
  get running(): number {
    return this.#running.size;
  }

  /** Sends a request without a body; returns the outcome, or undefined if this process stops. `headers`: names and values alternate. */
  async send(
    { origin, pathname, search }: URL,
    { method, headers }: { method: NonNullable<OutgoingRequest['method']>; headers: readonly string[] },
  ): Promise<Outcome | undefined> {
    const own = ['user-agent', this.#settings.userAgent, 'accept-encoding', 'identity'];
    const request = { method, path: pathname + search, headers: [...headers, ...own], body: Buffer.alloc(0) };
    const exchange = startExchange(
      origin,
      { ...request, mayBegin: () => !this.#isStopping },
      { connections: this.#connections, clock: this.#runtime.clock, limits: this.#settings },
    );
    this.#running.add(exchange);
    try {
      return await exchange.outcome;
    } catch {
      // Only an aborted exchange is rejected.
      return undefined;
    } finally {
      this.#running.delete(exchange);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const exchange of this.#running) exchange.abort();
    await this.#connections.stop();
  }
}

// Small JSON documents at addresses that strangers name: without redirects, within limits of size, time and number.

/** draft-ietf-oauth-client-id-metadata-document-03 §8.7 recommends 5 kilobytes. */
const DOCUMENT_BYTES_MAX = 5 * 1024;
/** What is kept of the headers, as much as Node.js reads by default, and of a body that is too large. */
const KEPT_BYTES_MAX = 16 * 1024;
const AT_ONCE_MAX = 16;

/** `why` is the end of a sentence that people may read. */
export type Fetched = { kind: 'document'; text: string; headers: Headers } | { kind: 'failed'; why: string };

const failed = (why: string): Fetched => ({ kind: 'failed', why });

const LATER = 'it cannot be fetched now; try again shortly';

const headersOf = (lines: string): Headers =>
  new Headers(Array.from(lines.matchAll(/^([^:]+): (.*)$/gm), ([, name = '', value = '']) => [name, value]));

/** Everything that did not respond has one text, so that no network can be explored by it. */
function fetchedOf(outcome: Outcome | undefined): Fetched {
  if (outcome === undefined || isInternalError(outcome)) return failed(LATER);
  const { kind, reply } = outcome;
  if (kind === 'blocked') return failed('this server may not fetch it from its host');
  if (reply === null) return failed('there was no valid response in time');
  if (reply.code !== 200) return failed(`the status of the response is ${reply.code} instead of 200`);
  const headers = headersOf(reply.headers);
  const [type = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';', 1);
  if (!/^application\/(?:[\w.!#$&^-]+\+)?json$/.test(type.trim()))
    return failed('its Content-Type is not application/json');
  if (Buffer.byteLength(reply.body) > DOCUMENT_BYTES_MAX)
    return failed(`it is larger than ${DOCUMENT_BYTES_MAX} bytes`);
  return { kind: 'document', text: reply.body, headers };
}

type DocumentSettings = Omit<SingleRequestSettings, 'exchangeTimeoutMs' | 'answerReadBytes' | 'answerKeptBytes'> & {
  documentTimeoutMs: number;
};

export class DocumentRequests implements Running {
  readonly #log: Runtime['log'];
  readonly #requests: SingleRequests;

  constructor(runtime: Pick<Runtime, 'guard' | 'clock' | 'log'>, settings: DocumentSettings) {
    this.#log = runtime.log;
    this.#requests = new SingleRequests(runtime, {
      ...settings,
      exchangeTimeoutMs: settings.documentTimeoutMs,
      answerReadBytes: DOCUMENT_BYTES_MAX,
      answerKeptBytes: KEPT_BYTES_MAX,
    });
  }

  /** Fetches the document at a valid https URL. */
  async fetch(url: string): Promise<Fetched> {
    if (this.#requests.isStopping || this.#requests.running >= AT_ONCE_MAX) return failed(LATER);
    const outcome = await this.#requests.send(new URL(url), { method: 'GET', headers: ['accept', 'application/json'] });
    if (outcome !== undefined) this.#log.info({ url, outcome: labelOf(outcome) }, 'metadata document fetched');
    return fetchedOf(outcome);
  }

  stop(): Promise<void> {
    return this.#requests.stop();
  }
}

// The validation handshake of "HTTP 1.1 Web Hooks for Event Delivery" (CloudEvents 1.0.2, section 4): asks an endpoint whether it allows
// deliveries of this service. It carries no headers and no key of the webhook, because the endpoint may be anyone's.

export type HandshakeSettings = Omit<SingleRequestSettings, 'exchangeTimeoutMs' | 'answerReadBytes'> & {
  /** The name of this service, as a host name. */
  requestOrigin: string;
  handshakesAtOnce: number;
  handshakesAtOnceOfAsker: number;
  handshakesAtOnceOfApps: number;
  handshakeTimeoutMs: number;
  handshakesPerMinuteOfStore: number;
  handshakesPerMinuteOfHost: number;
};

export type HandshakeResult =
  | { kind: 'allowed' }
  /** The endpoint responded, but without its permission. */
  | { kind: 'refused'; status: number }
  /** No name, no connection, no TLS, no HTTP or nothing in time: the same result, so that a user cannot explore networks. */
  | { kind: 'no_response' }
  /** The guard or the proxy forbids the address; `why` is its public text. */
  | { kind: 'blocked'; why: string }
  | { kind: 'internal' | 'stopping' }
  | { kind: 'limited'; waitSeconds: number };

const MINUTE_MS = 60_000;
const KEYS_MAX = 100_000;
const BUSY_WAIT_SECONDS = 5;

/** A token bucket per key (generic cell rate algorithm), whose burst is the number of one minute. */
class Buckets {
  readonly #fullAtMs = new LRUCache<string | number, number>(entriesUpTo(KEYS_MAX));
  readonly #costMs: number;
  readonly #clock: Clock;

  constructor(perMinute: number, clock: Clock) {
    this.#costMs = MINUTE_MS / perMinute;
    this.#clock = clock;
  }

  #after(key: string | number): number {
    const nowMs = this.#clock.monotonicMs();
    return Math.max(this.#fullAtMs.get(key) ?? nowMs, nowMs) + this.#costMs;
  }

  /** Returns the time until a token is available; 0 if one is. */
  waitMs(key: string | number): number {
    // The tolerance absorbs rounding of the clock's fractions.
    return Math.max(0, this.#after(key) - this.#clock.monotonicMs() - MINUTE_MS - 1e-3);
  }

  take(key: string | number): void {
    this.#fullAtMs.set(key, this.#after(key));
  }
}

/** Apps have fewer places, because registration may be open, and limits per host of their own. */
const isForApp = (asker: number | string): boolean => typeof asker === 'string';
const hostKey = (hostname: string, asker: number | string): string =>
  `${isForApp(asker) ? 'apps' : 'stores'} ${hostname}`;

const NAME = 'webhook-allowed-origin: ';

/** Returns whether the response permits deliveries: a 2xx with the name of this service, or with `*`. */
function isAllowed({ kind, reply }: Outcome, origin: string): boolean {
  if (kind !== 'delivered') return false;
  const lines = reply.headers.split('\n').filter((line) => line.startsWith(NAME));
  const values = lines.map((line) => line.slice(NAME.length).trim().toLowerCase());
  return values.length === 1 && (values[0] === '*' || values[0] === origin.toLowerCase());
}

function resultOf(outcome: Outcome, origin: string): HandshakeResult {
  if (isAllowed(outcome, origin)) return { kind: 'allowed' };
  if (outcome.reply !== null) return { kind: 'refused', status: outcome.reply.code };
  if (outcome.kind === 'blocked') return { kind: 'blocked', why: outcome.why };
  return { kind: isInternalError(outcome) ? 'internal' : 'no_response' };
}

/** Asks endpoints, in processes that serve the API. Limited per asker and per host, so that it cannot be used to flood others. */
export class Handshakes implements Running {
  /** The name of this service, which endpoints have to allow. */
  readonly origin: string;
  readonly timeoutMs: number;
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  readonly #settings: HandshakeSettings;
  readonly #requests: SingleRequests;
  readonly #ofAskers: Buckets;
  readonly #ofHosts: Buckets;
  /** The running requests. */
  readonly #running = new Set<{ asker: number | string }>();

  constructor(runtime: Pick<Runtime, 'guard' | 'clock' | 'log'>, settings: HandshakeSettings) {
    const { clock } = runtime;
    this.#runtime = runtime;
    this.#settings = settings;
    this.origin = settings.requestOrigin;
    this.timeoutMs = settings.handshakeTimeoutMs;
    // The status and the headers decide: the body is not read.
    const limits = { exchangeTimeoutMs: settings.handshakeTimeoutMs, answerReadBytes: 0 };
    this.#requests = new SingleRequests(runtime, { ...settings, ...limits });
    this.#ofAskers = new Buckets(settings.handshakesPerMinuteOfStore, clock);
    this.#ofHosts = new Buckets(settings.handshakesPerMinuteOfHost, clock);
  }

  /**
   * Asks the endpoint of a valid url; resolves when it has responded or timed out. `asker`: the id of the store whose webhook gets the url,
   * or a text that names the account, client or network that declares the url for an app.
   */
  async ask(url: string, asker: number | string): Promise<HandshakeResult> {
    if (this.#requests.isStopping) return { kind: 'stopping' };
    const { requestOrigin } = this.#settings;
    const { origin, hostname } = new URL(url);
    const waitSeconds = this.#waitSeconds(hostname, asker);
    if (waitSeconds > 0) return { kind: 'limited', waitSeconds };
    this.#ofAskers.take(asker);
    this.#ofHosts.take(hostKey(hostname, asker));
    const running = { asker };
    this.#running.add(running);
    const headers = ['webhook-request-origin', requestOrigin];
    const outcome = await this.#requests
      .send(new URL(url), { method: 'OPTIONS', headers })
      .finally(() => this.#running.delete(running));
    if (outcome === undefined) return { kind: 'stopping' };
    const result = resultOf(outcome, requestOrigin);
    const by = typeof asker === 'number' ? { store: asker } : { asker };
    this.#runtime.log.info(
      { ...by, origin, outcome: labelOf(outcome), handshake: result.kind },
      'webhook handshake ended',
    );
    return result;
  }

  async stop(): Promise<void> {
    await this.#requests.stop();
  }

  #waitSeconds(hostname: string, asker: number | string): number {
    const { handshakesAtOnce, handshakesAtOnceOfAsker, handshakesAtOnceOfApps } = this.#settings;
    const running = Array.from(this.#running, (one) => one.asker);
    const ofApps = running.filter(isForApp).length;
    const isBusy =
      running.length >= handshakesAtOnce ||
      running.filter((one) => one === asker).length >= handshakesAtOnceOfAsker ||
      (isForApp(asker) && ofApps >= handshakesAtOnceOfApps);
    if (isBusy) return BUSY_WAIT_SECONDS;
    return Math.ceil(Math.max(this.#ofAskers.waitMs(asker), this.#ofHosts.waitMs(hostKey(hostname, asker))) / 1_000);
  }
}
