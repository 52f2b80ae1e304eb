/**
 * Where deliveries are sent that were in flight when an owner of their shard died: few at once, fewer the more often it
 * happened, so that the one that kills is soon alone with what it does. Pure.
 */

/**
 * How many may be in flight at once, by the crashCount they were part of. With up to 1,024 in flight at the first one noted, 16
 * at once take the innocent through in seconds; the next death leaves 16 at most, the one after it 4, then the killer alone.
 */
const CONCURRENCY_BY_CRASHES = [Number.POSITIVE_INFINITY, 16, 4, 1] as const;

/** Alone twice, in its whole worker, and dead each time: what was in flight alone kills. */
export const DEAD_LETTER_AT_CRASHES = 5;

const concurrencyFor = (crashCount: number): number => CONCURRENCY_BY_CRASHES[crashCount] ?? 1;

export class IsolationSlot {
  /** CrashCounts by delivery. */
  readonly #running = new Map<number, number>();
  #exclusive: number | undefined;

  /**
   * Who is inside and may have no concurrency: of what is not suspected, either. A death beside a hundred others would prove
   * nothing, and one whose receiver takes its time is in flight at each death, whatever kills.
   */
  get exclusiveId(): number | undefined {
    return this.#exclusive;
  }

  get size(): number {
    return this.#running.size;
  }

  /** Lets the delivery in, if neither it nor any that is inside would have too much concurrency. */
  enter(id: number, crashCount: number): boolean {
    const concurrency = this.#running.size + 1;
    if (
      concurrency > concurrencyFor(crashCount) ||
      [...this.#running.values()].some((other) => concurrency > concurrencyFor(other))
    )
      return false;
    this.#running.set(id, crashCount);
    if (concurrencyFor(crashCount) === 1) this.#exclusive = id;
    return true;
  }

  /** Answers whether it was inside. */
  leave(id: number): boolean {
    if (id === this.#exclusive) this.#exclusive = undefined;
    return this.#running.delete(id);
  }
}
