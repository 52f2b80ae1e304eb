/**
 * Limits how many deliveries run at once that were in flight when a worker crashed. The limit falls with each crash, so
 * that the delivery that causes them soon runs alone. Pure.
 */

/**
 * Deliveries that may run at once, by the number of crashes in which they were in flight. Up to 1,024 are in flight at
 * the first one that counts: 16 at once take the harmless ones through in seconds, and the next crashes leave at most
 * 16, then 4, then one.
 */
const CONCURRENCY_BY_CRASHES = [Number.POSITIVE_INFINITY, 16, 4, 1] as const;

/** At this count the delivery ran alone in its worker twice, and the worker crashed each time. */
export const DEAD_LETTER_AT_CRASHES = 5;

const concurrencyFor = (crashCount: number): number => CONCURRENCY_BY_CRASHES[crashCount] ?? 1;

export class IsolationSlot {
  /** Crash counts by delivery. */
  readonly #running = new Map<number, number>();
  #exclusive: number | undefined;

  /**
   * The running delivery that excludes every other one, quarantined or not. A crash beside a hundred others would prove
   * nothing, and a delivery with a slow receiver is in flight at every crash, whatever causes it.
   */
  get exclusiveId(): number | undefined {
    return this.#exclusive;
  }

  get size(): number {
    return this.#running.size;
  }

  /** Admits the delivery unless its own limit or that of a running one would be exceeded. */
  enter(id: number, crashCount: number): boolean {
    const exceedsLimit = (crashes: number) => this.#running.size + 1 > concurrencyFor(crashes);
    if (exceedsLimit(crashCount) || [...this.#running.values()].some(exceedsLimit)) return false;
    this.#running.set(id, crashCount);
    if (concurrencyFor(crashCount) === 1) this.#exclusive = id;
    return true;
  }

  /** Releases the slot; returns whether the delivery had one. */
  leave(id: number): boolean {
    if (id === this.#exclusive) this.#exclusive = undefined;
    return this.#running.delete(id);
  }
}
