/** Interval at which one timer checks the age of all attempts. */
export const TICK_MS = 50;

/**
 * Finds attempts that exceed an age, with one check per tick instead of a timer per attempt. Age is counted in ticks,
 * not by the clock: a pause of our own event loop counts as one tick and makes no endpoint look slow.
 */
export class Ages<T> {
  /** A circular list of buckets: the items that become due at each of the next ticks. */
  readonly #buckets: Set<T>[];
  readonly #tickMs: number;
  #current = 0;

  /** Supports ages up to `maxMs`. */
  constructor(tickMs: number, maxMs: number) {
    this.#tickMs = tickMs;
    // Two more buckets: the next tick may be closer than one tick length, and the current bucket must not be used
    // again.
    this.#buckets = Array.from({ length: Math.ceil(maxMs / tickMs) + 2 }, () => new Set());
  }

  /**
   * Adds an item and returns its bucket, from which the caller deletes it when it ends; otherwise it would stay in
   * memory until its tick.
   */
  add(item: T, afterMs: number): Set<T> | undefined {
    const ticks = Math.min(Math.ceil(afterMs / this.#tickMs) + 1, this.#buckets.length - 1);
    return this.#buckets[(this.#current + ticks) % this.#buckets.length]?.add(item);
  }

  /** Advances by one tick and returns the items that are due. */
  tick(): ReadonlySet<T> {
    this.#current = (this.#current + 1) % this.#buckets.length;
    const due = this.#buckets[this.#current];
    this.#buckets[this.#current] = new Set();
    return due ?? new Set();
  }
}
