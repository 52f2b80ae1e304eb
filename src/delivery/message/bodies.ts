/** What deliveries carry: events by id in one byte-capped cache, and the bytes that a webhook gets of one. */
import { LRUCache } from 'lru-cache';
import type { Sql } from '#database/pool.ts';
import type { ActiveTarget } from '../lanes/target.ts';
import { loadEvents, type EventRow } from './queries.ts';
import { Representations } from './representation.ts';

/**
 * An event, and what was rendered of it last. Several webhooks of a store mostly ask for the same; a cache of its own by event
 * and query took 6 % of the worker's time, because most events go to one webhook, once.
 */
export type Body = { event: EventRow; rendered: { query: string; bytes: Uint8Array } | null };

/** So many events of which something was erased are told apart from what arrives late of them; a few bytes each. */
const FORGOTTEN_MAX = 100_000;

/** What an entry costs beside its text, roughly: keys, map, row. */
const ENTRY_BYTES = 512;
/** A text in memory has one or two bytes a character, and what is rendered of it has about as many again. */
const BYTES_PER_CHARACTER = 4;

export class Bodies {
  readonly #sql: Sql;
  readonly #representations: Representations;
  readonly #cache: LRUCache<number, Body>;
  /** When events were forgotten, as counted by `#forgettings`: what was read before that is not believed. */
  readonly #forgotten = new LRUCache<number, number>({ max: FORGOTTEN_MAX });
  #forgettings = 0;
  /** The last time when words may have been missed, which may have been about any event. */
  #allForgotten = 0;

  constructor(deps: { sql: Sql; bodyCacheBytes: number; relationPrefix: string }) {
    this.#sql = deps.sql;
    this.#representations = new Representations(deps.relationPrefix);
    // Two plain maps, of which the older is dropped when the younger is full, took 1.4 % of a worker's time instead of 2.1.
    this.#cache = new LRUCache({
      maxSize: deps.bodyCacheBytes,
      sizeCalculation: ({ event }) => ENTRY_BYTES + event.body.length * BYTES_PER_CHARACTER,
    });
  }

  /** Where the count of what was erased stands: taken before a read, said when it is kept. */
  get readAt(): number {
    return this.#forgettings;
  }

  /** Keeps an event, unless something of it was erased since it was read, or ever where it comes from its publisher. */
  put(event: EventRow, readAt?: number): boolean {
    if ((this.#forgotten.get(event.id) ?? 0) > (readAt ?? 0)) return false;
    if (readAt !== undefined && this.#allForgotten > readAt) return false;
    if (!this.#cache.has(event.id)) this.#cache.set(event.id, { event, rendered: null });
    return true;
  }

  /** Something of these events was erased: they are read again, and are then as they should be, or gone. */
  forget(eventIds: readonly number[]): void {
    this.#forgettings += 1;
    for (const id of eventIds) {
      this.#cache.delete(id);
      this.#forgotten.set(id, this.#forgettings);
    }
  }

  /** Words about events may have been missed. */
  forgetAll(): void {
    this.forget([...this.#cache.keys()]);
    this.#allForgotten = this.#forgettings;
  }

  peek(eventId: number): Body | undefined {
    return this.#cache.get(eventId);
  }

  /** Loads what is not in memory, in one statement; what is not in the table either stays away. */
  async load(shard: number, eventIds: readonly number[]): Promise<void> {
    const missing = [...new Set(eventIds)].filter((id) => !this.#cache.has(id));
    if (missing.length === 0) return;
    const readAt = this.#forgettings;
    for (const event of await loadEvents(this.#sql, shard, missing)) this.put(event, readAt);
  }

  /** The one event, from memory or the table; undefined where it was erased or its partition dropped. */
  async find(shard: number, eventId: number): Promise<Body | undefined> {
    const present = this.peek(eventId);
    if (present !== undefined) return present;
    const readAt = this.#forgettings;
    const [event] = await loadEvents(this.#sql, shard, [eventId]);
    if (event === undefined) return undefined;
    if (!this.put(event, readAt)) return this.find(shard, eventId);
    // An event larger than the whole cache is not kept by it.
    return this.peek(eventId) ?? { event, rendered: null };
  }

  /** The representation as GET answers it with the webhook's query, byte for byte. */
  shape(body: Body, { query, shape }: ActiveTarget): Uint8Array {
    const { event } = body;
    const spliced = query === '' ? this.#representations.spliced(event) : undefined;
    if (spliced !== undefined) return spliced;
    if (body.rendered?.query !== query) {
      body.rendered = { query, bytes: this.#representations.rendered(event, shape) };
    }
    return body.rendered.bytes;
  }
}
