/** The bytes that deliveries carry: events by id in one byte-capped cache, each shaped once for a query and format. */
import { LRUCache } from 'lru-cache';
import { resourceDocument } from '#commerce/document.ts';
import type { Sql } from '#database/pool.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { loadEvents, type EventRow } from './queries.ts';
import type { ActiveTarget } from '../lanes/target.ts';

export type Body = { event: EventRow };

/** So many events of which something was erased are told apart from what arrives late of them; a few bytes each. */
const FORGOTTEN_MAX = 100_000;

/** What an entry costs beside its text, roughly: keys, map, row. */
const ENTRY_BYTES = 512;
/** A text in memory has one or two bytes a character. */
const BYTES_PER_CHARACTER = 2;

export class Bodies {
  readonly #sql: Sql;
  readonly #relationPrefix: string;
  readonly #cache: LRUCache<number, Body>;
  /** By event and query; apart from the events, because every webhook may have a query of its own. */
  readonly #shaped: LRUCache<string, Uint8Array>;
  /** The keys of what is shaped of an event: an erasure of a thousand events must not walk all there is. */
  readonly #shapes = new Map<number, Set<string>>();
  /** When events were forgotten, as counted by `#forgettings`: what was read before that is not believed. */
  readonly #forgotten = new LRUCache<number, number>({ max: FORGOTTEN_MAX });
  #forgettings = 0;

  constructor(deps: { sql: Sql; bodyCacheBytes: number; relationPrefix: string }) {
    this.#sql = deps.sql;
    this.#relationPrefix = deps.relationPrefix;
    this.#cache = new LRUCache({
      maxSize: deps.bodyCacheBytes / 2,
      sizeCalculation: ({ event }) => ENTRY_BYTES + event.body.length * BYTES_PER_CHARACTER,
    });
    this.#shaped = new LRUCache({
      maxSize: deps.bodyCacheBytes / 2,
      sizeCalculation: (bytes, key) => ENTRY_BYTES + bytes.length + key.length * BYTES_PER_CHARACTER,
      dispose: (_bytes, key) => this.#unlist(key),
    });
  }

  /** Keeps an event, unless something of it was erased since it was read, or ever where it comes from its publisher. */
  put(event: EventRow, readAt = 0): boolean {
    if ((this.#forgotten.get(event.id) ?? 0) > readAt) return false;
    if (!this.#cache.has(event.id)) this.#cache.set(event.id, { event });
    return true;
  }

  /** Something of these events was erased: they are read again, and are then as they should be, or gone. */
  forget(eventIds: readonly number[]): void {
    this.#forgettings += 1;
    for (const id of eventIds) {
      this.#cache.delete(id);
      this.#forgotten.set(id, this.#forgettings);
      for (const key of this.#shapes.get(id) ?? []) this.#shaped.delete(key);
    }
  }

  /** Words about events may have been missed. */
  forgetAll(): void {
    this.forget([...this.#cache.keys()]);
    this.#shaped.clear();
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
    return this.peek(eventId) ?? { event };
  }

  /** The representation as GET answers it with the webhook's query, byte for byte. */
  shape({ event }: Body, target: ActiveTarget): Uint8Array {
    const key = `${event.id} ${target.query}`;
    const present = this.#shaped.get(key);
    if (present !== undefined) return present;
    const { storeId, type, resourceId: id, baseUrl, body } = event;
    const document = resourceDocument({ storeId, type, id, baseUrl, body }, target.shape);
    const bytes = Buffer.from(renderHal(document, { baseUrl, relationPrefix: this.#relationPrefix }));
    this.#shaped.set(key, bytes);
    // What is larger than the whole cache is not kept by it.
    if (this.#shaped.has(key)) this.#list(event.id, key);
    return bytes;
  }

  #list(eventId: number, key: string): void {
    const keys = this.#shapes.get(eventId);
    if (keys === undefined) this.#shapes.set(eventId, new Set([key]));
    else keys.add(key);
  }

  #unlist(key: string): void {
    const eventId = Number.parseInt(key, 10);
    const keys = this.#shapes.get(eventId);
    keys?.delete(key);
    if (keys?.size === 0) this.#shapes.delete(eventId);
  }
}
