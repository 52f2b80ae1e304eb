/** The bytes that deliveries carry: events by id in one byte-capped cache, each shaped once for a query and format. */
import { LRUCache } from 'lru-cache';
import { resourceDocument } from '#commerce/document.ts';
import type { Sql } from '#database/pool.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { loadEvents, type EventRow } from './queries.ts';
import type { ActiveTarget } from './target.ts';

export type Body = { event: EventRow };

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
    });
  }

  put(event: EventRow): void {
    if (!this.#cache.has(event.id)) this.#cache.set(event.id, { event });
  }

  peek(eventId: number): Body | undefined {
    return this.#cache.get(eventId);
  }

  /** Loads what is not in memory, in one statement; what is not in the table either stays away. */
  async load(shard: number, eventIds: readonly number[]): Promise<void> {
    const missing = [...new Set(eventIds)].filter((id) => !this.#cache.has(id));
    if (missing.length === 0) return;
    for (const event of await loadEvents(this.#sql, shard, missing)) this.put(event);
  }

  /** The one event, from memory or the table; undefined where it was erased or its partition dropped. */
  async find(shard: number, eventId: number): Promise<Body | undefined> {
    const present = this.peek(eventId);
    if (present !== undefined) return present;
    const [event] = await loadEvents(this.#sql, shard, [eventId]);
    if (event === undefined) return undefined;
    this.put(event);
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
    return bytes;
  }
}
