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
const ROOM_MADE = 7 / 8;

type Kept = Body & { deliveries: number };

const bytesOf = ({ event }: Body): number => ENTRY_BYTES + event.body.length * BYTES_PER_CHARACTER;

/**
 * What was sent is let go at once. In an LRU cache it stayed for 14,000 events more, moved to the old generation by then,
 * and its order, which follows who waits and not who is needed, took 2 % of a worker's time.
 */
export class EventCache {
  readonly #byteLimit: number;
  /** The ones that came first stand first: who waits for so long is slow or paused, and is read again in its turn. */
  readonly #kept = new Map<number, Kept>();
  #bytes = 0;

  constructor(byteLimit: number) {
    this.#byteLimit = byteLimit;
  }

  get(eventId: number): Body | undefined {
    return this.#kept.get(eventId);
  }

  has(eventId: number): boolean {
    return this.#kept.has(eventId);
  }

  ids(): number[] {
    return [...this.#kept.keys()];
  }

  add(event: EventRow): void {
    const kept = { event, rendered: null, deliveries: 0 };
    this.#kept.set(event.id, kept);
    this.#bytes += bytesOf(kept);
    if (this.#bytes > this.#byteLimit) this.#makeRoom();
  }

  /** A delivery of it is in memory now. */
  hold(eventId: number): void {
    const kept = this.#kept.get(eventId);
    if (kept !== undefined) kept.deliveries += 1;
  }

  /** One is not any more. Where it came later than some of them it goes with the first: the others read it again. */
  release(eventId: number): void {
    const kept = this.#kept.get(eventId);
    if (kept === undefined) return;
    kept.deliveries -= 1;
    if (kept.deliveries <= 0) this.#drop(eventId, kept);
  }

  delete(eventId: number): void {
    const kept = this.#kept.get(eventId);
    if (kept !== undefined) this.#drop(eventId, kept);
  }

  #drop(eventId: number, kept: Kept): void {
    this.#kept.delete(eventId);
    this.#bytes -= bytesOf(kept);
  }

  #makeRoom(): void {
    for (const [eventId, kept] of this.#kept) {
      if (this.#bytes <= this.#byteLimit * ROOM_MADE) return;
      this.#drop(eventId, kept);
    }
  }
}
