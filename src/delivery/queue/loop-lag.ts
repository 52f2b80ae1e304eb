/**
 * Measures how far our own event loop lags. A response that waits in a busy loop says nothing about the endpoint. Pure.
 */

/** The loop is busy if it was idle for less than this share of the time. */
const SPARE = 1 / 10;
/**
 * The request waits for up to one iteration of the loop, the response for another, with a margin of two. A longer
 * duration is the endpoint's.
 */
const TURNS = 4;
/** Share of the lag that remains after each tick. */
const FADING = 3 / 4;

export class LoopLag {
  /** Estimated duration of a loop iteration under load. */
  #lagMs = 0;

  /** Records that a timer fired `lateMs` late. */
  recordTimerDelay(lateMs: number): void {
    this.#lagMs = Math.max(lateMs, this.#lagMs * FADING);
  }

  /**
   * Returns whether our own event loop accounts for an attempt of `durationMs`, during which it was idle for `idleMs`.
   */
  isLagging(durationMs: number, idleMs: number): boolean {
    return idleMs < durationMs * SPARE && durationMs < this.#lagMs * TURNS;
  }
}
