/**
 * How many exchanges a lane may have at once: about what its rate times its latency needs. Pure.
 *
 * By Little's law k exchanges at once are of use while answers take no longer than one alone does. So the cap grows where
 * it held something back and the answer was about as fast as the fastest known, and shrinks where more at once only made
 * answers slower: the endpoint works them off one by one, or we do. Growing by one on every fast success, as it was first,
 * brought each of 500 lanes to 32 in a burst: 13,000 sockets for what 500 do. When it grew while our own event loop was behind,
 * where every answer seems as slow as every other, a round of 30,000 deliveries opened 3,500 connections, and a worker spent
 * 9 % of its time on opening and closing them.
 */

/** An answer that is this much slower than the fastest known is slower because of what was under way beside it. */
const TOLERATED_SLOWDOWN = 1.5;
/** From here on less at once is better. */
const EXCESSIVE_SLOWDOWN = 4;
/** Below this, times tell of our own event loop more than of the endpoint. */
const NOISE_MS = 5;
/** What one answer alone moves the fastest known time upwards: an endpoint that became slower for good is believed in time. */
const BEST_TIME_DRIFT = 1 / 8;
/** After so many answers that let it grow no further it begins at one again: only alone an endpoint shows how fast it is now. */
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

  /** From 1 to `max`. */
  get limit(): number {
    return this.#limit;
  }

  /** The fastest answer known, in ms; infinite before the first. */
  get bestMs(): number {
    return this.#bestMs;
  }

  /**
   * A success that took `durationMs`, begun as the `alongside`-th at once; `isWaiting`: the lane has more to send; `isOurs`: it
   * was our own event loop that took so long.
   */
  recordSuccess({ durationMs, inFlight, hasMoreToSend, loopIsLagging }: Success): void {
    if (durationMs < this.#bestMs) this.#bestMs = durationMs;
    else if (inFlight === 1 && !loopIsLagging) this.#bestMs += (durationMs - this.#bestMs) * BEST_TIME_DRIFT;
    if (inFlight < this.#limit) return;
    const slowdown = durationMs / Math.max(this.#bestMs, NOISE_MS);
    // The half lets few grow sooner than many: with one at once there is the least to lose, and the most to gain.
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
