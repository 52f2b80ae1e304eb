/**
 * Which exchanges are older than they should be: one look a tick, and no timer an exchange. Counted in ticks and not by the
 * clock: a pause of our own event loop is one tick, and makes nobody else look slow.
 */
export class Ages<T> {
  /** What becomes late at which tick from now, round and round. */
  readonly #rounds: T[][];
  readonly #tickMs: number;
  #now = 0;

  /** For ages up to `maxMs`. */
  constructor(tickMs: number, maxMs: number) {
    this.#tickMs = tickMs;
    // The tick that comes next is nearer than a whole one, so one more is waited for; and the present one is not to be met again.
    this.#rounds = Array.from({ length: Math.ceil(maxMs / tickMs) + 2 }, () => []);
  }

  add(item: T, afterMs: number): void {
    const ticks = Math.min(Math.ceil(afterMs / this.#tickMs) + 1, this.#rounds.length - 1);
    this.#rounds[(this.#now + ticks) % this.#rounds.length]?.push(item);
  }

  /** Goes on by one tick; answers whose time is up now, those that are over by themselves included. */
  tick(): readonly T[] {
    this.#now = (this.#now + 1) % this.#rounds.length;
    const due = this.#rounds[this.#now] ?? [];
    this.#rounds[this.#now] = [];
    return due;
  }
}
