/**
 * How far our own event loop keeps up. Where it does not, an answer lies there unread, and a time tells of us and not of the
 * endpoint. Pure.
 */

/** With less than this part of the time to spare the loop is busy. */
const SPARE = 1 / 10;
/** A request waits for most of a turn of the loop and its answer for most of another: what takes longer, the endpoint takes. */
const TURNS = 4;
/** What is left of a lag with each tick. */
const FADING = 3 / 4;

export class LoopLag {
  /** About how long a turn of the loop takes, where it has always something to do. */
  #lagMs = 0;

  /** A timer fired so many ms too late. */
  recordTimerDelay(lateMs: number): void {
    this.#lagMs = Math.max(lateMs, this.#lagMs * FADING);
  }

  /** Whether it was we who took the `durationMs` of an exchange, of which our loop was idle for `idleMs`. */
  isLagging(durationMs: number, idleMs: number): boolean {
    return idleMs < durationMs * SPARE && durationMs < this.#lagMs * TURNS;
  }
}
