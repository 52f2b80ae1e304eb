/**
 * The lanes that need settings or rows from the table. The parts that need them add lanes, and the fetcher takes them: so these parts
 * need no fetcher.
 */
import type { Lane } from './lane.ts';

/** A recurring event that can be awaited. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  fire(): void {
    if (this.#waiting.size === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves at the next `fire`. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}

export class FetchRequests {
  /** Lanes that have deliveries to send and no settings, in order of request; they are served first. */
  readonly urgent = new Set<Lane>();
  readonly normal = new Set<Lane>();
  /** Fires when a lane was added. Requests of one tick share statements. */
  readonly added = new Signal();
  #isStopped = false;

  /** Requests settings or rows for the lane. */
  add(lane: Lane, isUrgent = lane.target === null && lane.deliveries.queued > 0): void {
    if (lane.isClosed || this.#isStopped) return;
    (isUrgent ? this.urgent : this.normal).add(lane);
    this.added.fire();
  }

  /** Discards the settings of a webhook that may have changed: nothing is sent to it until its row has been read again. */
  reload(lane: Lane): void {
    lane.discardSettings();
    this.add(lane);
  }

  stop(): void {
    this.#isStopped = true;
    this.urgent.clear();
    this.normal.clear();
  }
}
