/** Events in memory: each for as long as a delivery of it is, and no more bytes in all than there is room for. */
import type { FormatName } from './formats/formats.ts';
import type { EventRow } from './event-sql.ts';

/**
 * An event, and what was rendered of it last. Several webhooks of a store mostly ask for the same; a cache of its own by event
 * and query took 6 % of the worker's time, because most events go to one webhook, once.
 */
export type Body = { readonly event: EventRow; rendered: Rendered | null };

type Rendered = { format: FormatName; query: string; bytes: Uint8Array };

/** What an entry costs beside its text, roughly: keys, map, row. */
const ENTRY_BYTES = 512;
/** A text in memory has one or two bytes a character, and what is rendered of it has about as many again. */
const BYTES_PER_CHARACTER = 4;
/** So full it is after there was too much: the first of a map is behind all that were taken out of it. */
const EVICT_DOWN_TO = 7 / 8;

type CacheEntry = Body & { deliveries: number };

const bytesOf = ({ event }: Body): number => ENTRY_BYTES + event.body.length * BYTES_PER_CHARACTER;

/**
 * What was sent is let go at once. In an LRU cache it stayed for 14,000 events more, moved to the old generation by then,
 * and its order, which follows who waits and not who is needed, took 2 % of a worker's time.
 */
export class EventCache {
  readonly #byteLimit: number;
  /** The ones that came first stand first: who waits for so long is slow or paused, and is read again in its turn. */
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

  /** A delivery of it is in memory now. */
  retain(eventId: number): void {
    const entry = this.#entries.get(eventId);
    if (entry !== undefined) entry.deliveries += 1;
  }

  /** One is not any more. Where it came later than some of them it goes with the first: the others read it again. */
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
