/** A cache of events, each for as long as a delivery of it is in memory, within a byte limit. */
import type { FormatName } from './formats/formats.ts';
import type { EventRow } from './event-sql.ts';

/**
 * An event and its last rendering. Webhooks of a store mostly use the same query; a separate cache by event and query
 * took 6 % of the worker's time, because most events go to one webhook, once.
 */
export type Body = { readonly event: EventRow; rendered: Rendered | null };

type Rendered = { format: FormatName; query: string; bytes: Uint8Array };

/** Approximate size of an entry without its text: keys, map, row. */
const ENTRY_BYTES = 512;
/** A text has one or two bytes per character in memory, and its rendering about as many again. */
const BYTES_PER_CHARACTER = 4;
/**
 * Fill level after an eviction. Evicting several at once is cheaper: finding the first entry of a Map passes all
 * deleted ones.
 */
const EVICT_DOWN_TO = 7 / 8;

type CacheEntry = Body & { deliveries: number };

const bytesOf = ({ event }: Body): number => ENTRY_BYTES + event.body.length * BYTES_PER_CHARACTER;

/**
 * Drops an event after its last delivery. An LRU cache kept it for 14,000 more events, by then in the old generation,
 * and its order, which favours events that wait, took 2 % of a worker's time.
 */
export class EventCache {
  readonly #byteLimit: number;
  /** In order of insertion: the oldest belong to slow or paused webhooks and are read again when they are sent. */
  readonly #entries = new Map<number, CacheEntry>();
  #bytes = 0;

  constructor(byteLimit: number) {
    this.#byteLimit = byteLimit;
  }

  get(eventId: number): Body | undefined {
    return this.#entries.get(eventId);
  }

  has(eventId: number): boolean {
    return this.#entries.has(eventId);
  }

  ids(): number[] {
    return [...this.#entries.keys()];
  }

  add(event: EventRow): void {
    const entry = { event, rendered: null, deliveries: 0 };
    this.#entries.set(event.id, entry);
    this.#bytes += bytesOf(entry);
    if (this.#bytes > this.#byteLimit) this.#evict();
  }

  /** Counts a delivery of the event in memory. */
  retain(eventId: number): void {
    const entry = this.#entries.get(eventId);
    if (entry !== undefined) entry.deliveries += 1;
  }

  /**
   * Uncounts a delivery. An event added after some of its deliveries is dropped early, and the others read it again.
   */
  release(eventId: number): void {
    const entry = this.#entries.get(eventId);
    if (entry === undefined) return;
    entry.deliveries -= 1;
    if (entry.deliveries <= 0) this.#remove(eventId, entry);
  }

  delete(eventId: number): void {
    const entry = this.#entries.get(eventId);
    if (entry !== undefined) this.#remove(eventId, entry);
  }

  #remove(eventId: number, entry: CacheEntry): void {
    this.#entries.delete(eventId);
    this.#bytes -= bytesOf(entry);
  }

  #evict(): void {
    for (const [eventId, entry] of this.#entries) {
      if (this.#bytes <= this.#byteLimit * EVICT_DOWN_TO) return;
      this.#remove(eventId, entry);
    }
  }
}
