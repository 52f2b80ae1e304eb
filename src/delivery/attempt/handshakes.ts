/**
 * The validation handshake of "HTTP 1.1 Web Hooks for Event Delivery" (CloudEvents 1.0.2, section 4): asks an endpoint whether it
 * allows deliveries of this service. It carries no headers and no key of the webhook, because the endpoint may be anyone's.
 */
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { SingleRequests, type SingleRequestSettings } from './single-requests.ts';
import { isInternalError, labelOf, type Outcome } from './http/attempt-outcome.ts';

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
