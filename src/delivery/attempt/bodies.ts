/** What deliveries carry: events by id in one byte-capped cache, and the bytes that a webhook gets of one. */
import { LRUCache } from 'lru-cache';
import type { Sql } from '#db/pool.ts';
import type { ActiveTarget } from '../queue/target.ts';
import { EventCache, type Body } from './event-cache.ts';
import { loadEvents, type EventRow } from './event-sql.ts';
import { Representations } from './representation.ts';

/** So many events of which something was erased are told apart from what arrives late of them; a few bytes each. */
const FORGOTTEN_MAX = 100_000;
/** What one load reads of the bytes of the cache, where a text takes four times its bytes (event-cache.ts): 4 MiB of 64. */
const LOAD_SHARE = 1 / 16;

export class Bodies {
  readonly #sql: Sql;
  readonly #representations: Representations;
  readonly #cache: EventCache;
  /** Texts that one statement reads: several do at once. */
  readonly #loadBytes: number;
  /** When events were forgotten, as counted by `#forgetCount`: what was read before that is not believed. */
  readonly #forgotten = new LRUCache<number, number>({ max: FORGOTTEN_MAX });
  #forgetCount = 0;
  /** The last time when words may have been missed, which may have been about any event. */
  #allForgotten = 0;

  constructor(deps: { sql: Sql; bodyCacheBytes: number; relationPrefix: string }) {
    this.#sql = deps.sql;
    this.#representations = new Representations(deps.relationPrefix);
    this.#cache = new EventCache(deps.bodyCacheBytes);
    this.#loadBytes = Math.ceil(deps.bodyCacheBytes * LOAD_SHARE);
  }

  /** Where the count of what was erased stands: taken before a read, said when it is kept. */
  get readAt(): number {
    return this.#forgetCount;
  }

  /** Keeps an event, unless something of it was erased since it was read, or ever where it comes from its publisher. */
  put(event: EventRow, readAt?: number): boolean {
    if ((this.#forgotten.get(event.id) ?? 0) > (readAt ?? 0)) return false;
    if (readAt !== undefined && this.#allForgotten > readAt) return false;
    if (!this.#cache.has(event.id)) this.#cache.add(event);
    return true;
  }

  /** Something of these events was erased: they are read again, and are then as they should be, or gone. */
  forget(eventIds: readonly number[]): void {
    this.#forgetCount += 1;
    for (const id of eventIds) {
      this.#cache.delete(id);
      this.#forgotten.set(id, this.#forgetCount);
    }
  }

  /** Words about events may have been missed. */
  forgetAll(): void {
    this.forget(this.#cache.ids());
    this.#allForgotten = this.#forgetCount;
  }

  /** A delivery of the event is in memory, and one less: when none is, the event is not needed either. */
  hold(eventId: number): void {
    this.#cache.retain(eventId);
  }

  release(eventId: number): void {
    this.#cache.release(eventId);
  }

  peek(eventId: number): Body | undefined {
    return this.#cache.get(eventId);
  }

  /**
   * Loads what is not in memory, in one statement, the first of it first and no more than a part of what there is room for;
   * the others are found when they are sent. 200 deliveries of 50 lanes could be 2.5 GB. What is gone stays away.
   */
  async load(shard: number, eventIds: readonly number[]): Promise<void> {
    const missing = [...new Set(eventIds)].filter((id) => !this.#cache.has(id));
    if (missing.length === 0) return;
    const readAt = this.#forgetCount;
    for (const event of await loadEvents(this.#sql, shard, missing, this.#loadBytes)) this.put(event, readAt);
  }

  /** The one event, from memory or the table; undefined where it was erased or its partition dropped. */
  async find(shard: number, eventId: number): Promise<Body | undefined> {
    const present = this.peek(eventId);
    if (present !== undefined) return present;
    const readAt = this.#forgetCount;
    const [event] = await loadEvents(this.#sql, shard, [eventId]);
    if (event === undefined) return undefined;
    if (!this.put(event, readAt)) return this.find(shard, eventId);
    // An event larger than the whole cache is not kept by it.
    return this.peek(eventId) ?? { event, rendered: null };
  }

  /** In `json` the representation as GET answers it with the webhook's query, byte for byte; else what the format makes of it. */
  shape(body: Body, { format, query, shape }: Pick<ActiveTarget, 'format' | 'query' | 'shape'>): Uint8Array {
    const { event } = body;
    const spliced = query === '' && format === 'json' ? this.#representations.spliced(event) : undefined;
    if (spliced !== undefined) return spliced;
    const { rendered } = body;
    if (rendered?.query === query && rendered.format === format) return rendered.bytes;
    const bytes = this.#representations.rendered(event, shape, format);
    body.rendered = { format, query, bytes };
    return bytes;
  }
}
