/**
 * Where deliveries are sent that were in flight when an owner of their shard died: few at once, fewer the more often it
 * happened, so that the one that kills is soon alone with what it does. Pure.
 */

/**
 * How many may be in flight at once, by the deaths they were part of. With up to 1,024 in flight at the first one noted, 16
 * at once take the innocent through in seconds; the next death leaves 16 at most, the one after it 4, then the killer alone.
 */
const AT_ONCE = [Number.POSITIVE_INFINITY, 16, 4, 1] as const;

/** Alone twice, in its whole worker, and dead each time: what was in flight alone kills. */
export const PUT_ASIDE_AT_DEATHS = 5;

const atOnce = (deaths: number): number => AT_ONCE[deaths] ?? 1;

export class Cell {
  /** Deaths by delivery. */
  readonly #inside = new Map<number, number>();
  #alone: number | undefined;

  /**
   * Who is inside and may have no company: of what is not suspected, either. A death beside a hundred others would prove
   * nothing, and one whose receiver takes its time is in flight at each death, whatever kills.
   */
  get alone(): number | undefined {
    return this.#alone;
  }

  get size(): number {
    return this.#inside.size;
  }

  /** Lets the delivery in, if neither it nor any that is inside would have too much company. */
  enter(id: number, deaths: number): boolean {
    const company = this.#inside.size + 1;
    if (company > atOnce(deaths) || [...this.#inside.values()].some((other) => company > atOnce(other))) return false;
    this.#inside.set(id, deaths);
    if (atOnce(deaths) === 1) this.#alone = id;
    return true;
  }

  /** Answers whether it was inside. */
  leave(id: number): boolean {
    if (id === this.#alone) this.#alone = undefined;
    return this.#inside.delete(id);
  }
}
