/** Limits how many deliveries all lanes together load. The rest of a backlog stays in the table. */

/** What a lane may queue above the limit: enough to keep sending while the next deliveries are fetched. */
const MIN_LANE_QUEUE = 4;

/** Keeps events cached as long as deliveries of them are in memory. */
export type EventRetainer = { hold: (eventId: number) => void; release: (eventId: number) => void };

const NO_RETAINER: EventRetainer = { hold: () => {}, release: () => {} };

/**
 * A delivery in memory takes 300 bytes, a lane 0.7 KB, or 1.6 KB with its settings (measured). The total is at most 300
 * bytes per delivery of the limit and 2.8 KB per lane: 30 MB and 28 MB with 10,000 lanes, the maximum (Lanes).
 */
export class MemoryLimit {
  readonly #limit: number;
  readonly #events: EventRetainer;
  #loaded = 0;

  /** `limit` is a number of deliveries. */
  constructor(limit: number, events: EventRetainer = NO_RETAINER) {
    this.#limit = limit;
    this.#events = events;
  }

  get loaded(): number {
    return this.#loaded;
  }

  /** How many deliveries one lane may queue now. */
  get perLane(): number {
    return this.#loaded < this.#limit ? Number.POSITIVE_INFINITY : MIN_LANE_QUEUE;
  }

  /** Counts a loaded delivery and retains its event. */
  add(eventId: number): void {
    this.#loaded += 1;
    this.#events.hold(eventId);
  }

  /** Uncounts a delivery and releases its event. */
  remove(eventId: number): void {
    this.#loaded -= 1;
    this.#events.release(eventId);
  }
}
