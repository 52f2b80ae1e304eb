/** One request, mostly a POST, and its response: an overall deadline, bounded reads, no redirects, no decompression. */
import type { Dispatcher } from 'undici';
import type { Clock } from '#core/clock.ts';
import type { Mask } from '../delivery-target.ts';
import { Answer, type AnswerHeaders, type AnswerLimits } from './response.ts';
import type { Connection, OutgoingRequest, Connections } from './endpoint-connections.ts';
import { HeadTooLarge, isReset, isTooLong, outcomeOfError, type Outcome, type Phase } from './attempt-outcome.ts';

export type ExchangeLimits = AnswerLimits & { exchangeTimeoutMs: number };

/** Measurements of an exchange on the wire. */
export type Wire = {
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
