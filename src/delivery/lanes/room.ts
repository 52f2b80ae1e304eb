/** How much all lanes together hold of the table: a backlog of any size, in any number of webhooks, stays where it is. */

/** What a lane may queue when there is no room: enough to go on sending while the next ones are fetched. */
const PRESSED_LANE_QUEUE = 4;

/**
 * Deliveries in memory, some 250 bytes each. With the most there may be, 100,000, and as many lanes (2 KB each, and four
 * deliveries) that is 25 MB and 300 MB; with 10,000 lanes 55 MB.
 */
export class Room {
  readonly #limit: number;
  #held = 0;

  /** For so many deliveries. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get held(): number {
    return this.#held;
  }

  /** How many deliveries one lane may queue now. */
  get perLane(): number {
    return this.#held < this.#limit ? Number.POSITIVE_INFINITY : PRESSED_LANE_QUEUE;
  }

  add(count: number): void {
    this.#held += count;
  }
}
