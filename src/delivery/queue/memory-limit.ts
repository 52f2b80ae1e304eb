/** How much all lanes together hold of the table: a backlog of any size, in any number of webhooks, stays where it is. */

/** What a lane may queue when there is no room: enough to go on sending while the next ones are fetched. */
const PRESSED_LANE_QUEUE = 4;

/** Who keeps events for as long as deliveries of them are in memory. */
export type EventRetainer = { hold: (eventId: number) => void; release: (eventId: number) => void };

const NO_RETAINER: EventRetainer = { hold: () => {}, release: () => {} };

/**
 * A delivery in memory is 300 bytes, a lane 0.7 KB, 1.6 KB once its webhook was read (measured). So at most the limit times
 * 300 bytes, and for each lane 2.8 KB: 30 MB and 28 MB with 10,000 lanes, of which there are no more (Lanes).
 */
export class MemoryLimit {
  readonly #limit: number;
  readonly #events: EventRetainer;
  #loaded = 0;

  /** For so many deliveries, of events that are kept for them. */
  constructor(limit: number, events: EventRetainer = NO_RETAINER) {
    this.#limit = limit;
    this.#events = events;
  }

  get loaded(): number {
    return this.#loaded;
  }

  /** How many deliveries one lane may queue now. */
  get perLane(): number {
    return this.#loaded < this.#limit ? Number.POSITIVE_INFINITY : PRESSED_LANE_QUEUE;
  }

  /** A delivery of the event is in memory. */
  add(eventId: number): void {
    this.#loaded += 1;
    this.#events.hold(eventId);
  }

  /** It is not any more. */
  remove(eventId: number): void {
    this.#loaded -= 1;
    this.#events.release(eventId);
  }
}
