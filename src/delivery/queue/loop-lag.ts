/**
 * Measures how far our own event loop lags. A response that waits in a busy loop says nothing about the endpoint. Pure.
 */

/** The loop is busy if it was idle for less than this share of the time. */
const MIN_IDLE_SHARE = 1 / 10;
/**
 * Request and response each wait for most of a loop iteration. A duration above this many iterations is due to the
 * endpoint.
 */
const MAX_ITERATIONS = 4;
/** Share of the lag that remains after each tick. */
const DECAY = 3 / 4;

export class LoopLag {
  /** Estimated duration of a loop iteration under load. */
  #lagMs = 0;

  /** Records that a timer fired `lateMs` late. */
  recordTimerDelay(lateMs: number): void {
    this.#lagMs = Math.max(lateMs, this.#lagMs * DECAY);
  }

  /**
   * Returns whether our own event loop accounts for an attempt of `durationMs`, during which it was idle for `idleMs`.
   */
  isLagging(durationMs: number, idleMs: number): boolean {
    return idleMs < durationMs * MIN_IDLE_SHARE && durationMs < this.#lagMs * MAX_ITERATIONS;
  }
}
