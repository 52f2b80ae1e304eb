/**
 * Which exchanges are older than they should be: one look a tick, and no timer an exchange. Counted in ticks and not by the
 * clock: a pause of our own event loop is one tick, and makes nobody else look slow.
 */
export class Ages<T> {
  /** What becomes late at which tick from now, round and round. */
  readonly #buckets: Set<T>[];
  readonly #tickMs: number;
  #current = 0;

  /** For ages up to `maxMs`. */
  constructor(tickMs: number, maxMs: number) {
    this.#tickMs = tickMs;
    // The tick that comes next is nearer than a whole one, so one more is waited for; and the present one is not to be met again.
    this.#buckets = Array.from({ length: Math.ceil(maxMs / tickMs) + 2 }, () => new Set());
  }

  /** Answers among whom it waits: what is over leaves them, or it would stay in memory for as long as it might have taken. */
  add(item: T, afterMs: number): Set<T> | undefined {
    const ticks = Math.min(Math.ceil(afterMs / this.#tickMs) + 1, this.#buckets.length - 1);
    return this.#buckets[(this.#current + ticks) % this.#buckets.length]?.add(item);
  }

  /** Goes on by one tick; answers whose time is up now. */
  tick(): ReadonlySet<T> {
    this.#current = (this.#current + 1) % this.#buckets.length;
    const due = this.#buckets[this.#current];
    this.#buckets[this.#current] = new Set();
    return due ?? new Set();
  }
}
