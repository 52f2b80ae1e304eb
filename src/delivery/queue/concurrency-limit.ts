/**
 * Adapts how many attempts a lane may have in flight to what its rate and latency need. Pure.
 *
 * By Little's law, concurrency helps as long as responses are no slower than alone. The limit grows when it held
 * deliveries back and the response was about as fast as the best known one; it shrinks when concurrency only made
 * responses slower. Growing on every fast success brought each of 500 lanes to 32 in a burst: 13,000 sockets instead of
 * 500. Growing while our own event loop lagged opened 3,500 connections in a round of 30,000 deliveries and cost a
 * worker 9 % of its time.
 */

/** A response slower than the best by more than this factor is slower because of the concurrent attempts. */
const TOLERATED_SLOWDOWN = 1.5;
/** From this factor on, the limit is reduced. */
const EXCESSIVE_SLOWDOWN = 4;
/** Shorter durations say more about our own event loop than about the endpoint. */
const NOISE_MS = 5;
/**
 * Share by which a slower response, measured alone, raises the best time, so that an endpoint that became slower is not
 * treated as overloaded for ever.
 */
const BEST_TIME_DRIFT = 1 / 8;
/**
 * After this many rejected increases the limit starts at 1 again: only a single attempt shows the current speed of the
 * endpoint.
 */
const RESET_AFTER_REJECTIONS = 32;

type Success = { durationMs: number; inFlight: number; hasMoreToSend: boolean; loopIsLagging: boolean };

export class ConcurrencyLimit {
  readonly #max: number;
  #limit = 1;
  #bestMs = Number.POSITIVE_INFINITY;
  #rejections = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** The number of attempts allowed at once, from 1 to `max`. */
  get limit(): number {
    return this.#limit;
  }

  /** The fastest response, in ms; infinite before the first. */
  get bestMs(): number {
    return this.#bestMs;
  }

  /**
   * Records a success that took `durationMs` and started with `inFlight` attempts in flight, itself included.
   * `hasMoreToSend`: the lane has queued deliveries. `loopIsLagging`: our own event loop accounts for the duration.
   */
  recordSuccess({ durationMs, inFlight, hasMoreToSend, loopIsLagging }: Success): void {
    if (durationMs < this.#bestMs) this.#bestMs = durationMs;
    else if (inFlight === 1 && !loopIsLagging) this.#bestMs += (durationMs - this.#bestMs) * BEST_TIME_DRIFT;
    if (inFlight < this.#limit) return;
    const slowdown = durationMs / Math.max(this.#bestMs, NOISE_MS);
    // Adding 0.5 lets low limits grow sooner: with one attempt at a time there is the least to lose and the most to
    // gain.
    const isUseful = (TOLERATED_SLOWDOWN * inFlight) / slowdown + 0.5 > this.#limit;
    if (isUseful && (!hasMoreToSend || loopIsLagging)) return;
    if (isUseful) this.#set(Math.min(this.#limit + 1, this.#max));
    else if (slowdown > EXCESSIVE_SLOWDOWN) this.#set(Math.max(1, this.#limit - 1));
    else if (this.#rejections >= RESET_AFTER_REJECTIONS) this.#set(1);
    else this.#rejections += 1;
  }

  recordTimeout(): void {
    this.#set(1);
  }

  #set(limit: number): void {
    this.#limit = limit;
    this.#rejections = 0;
  }
}
