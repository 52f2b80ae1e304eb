/** Bodies of deliveries: caches events by id, within a byte limit, and renders the bytes that a webhook receives. */
import { LRUCache } from 'lru-cache';
import type { Sql } from '#db/pool.ts';
import type { ActiveTarget } from '../queue/target.ts';
import { EventCache, type Body } from './event-cache.ts';
import { loadEvents, type EventRow } from './event-sql.ts';
import { Representations } from './representation.ts';

/** Number of events whose erasure is remembered, to reject outdated reads of them; a few bytes each. */
const FORGOTTEN_MAX = 100_000;
/**
 * Share of the cache size that one load may read. A text takes four times its bytes in memory (event-cache.ts): 4 MiB
 * of 64.
 */
const LOAD_SHARE = 1 / 16;

export class Bodies {
  readonly #sql: Sql;
  readonly #representations: Representations;
  readonly #cache: EventCache;
  /** Limit of text bytes per statement; several statements run at once. */
  readonly #loadBytes: number;
  /** By event, the value of `#forgetCount` when it was last forgotten: older reads of it are rejected. */
  readonly #forgotten = new LRUCache<number, number>({ max: FORGOTTEN_MAX });
  #forgetCount = 0;
  /** The value of `#forgetCount` when notifications may last have been missed, which may concern any event. */
  #allForgotten = 0;

  constructor(deps: { sql: Sql; bodyCacheBytes: number; relationPrefix: string }) {
    this.#sql = deps.sql;
    this.#representations = new Representations(deps.relationPrefix);
    this.#cache = new EventCache(deps.bodyCacheBytes);
    this.#loadBytes = Math.ceil(deps.bodyCacheBytes * LOAD_SHARE);
  }

  /** Returns the number of erasures so far: taken before a read and passed to `put`. */
  get readAt(): number {
    return this.#forgetCount;
  }

  /**
   * Caches an event, unless it was erased after `readAt`, or at any time if it comes from its publisher. Returns
   * whether it is current.
   */
  put(event: EventRow, readAt?: number): boolean {
    if ((this.#forgotten.get(event.id) ?? 0) > (readAt ?? 0)) return false;
    if (readAt !== undefined && this.#allForgotten > readAt) return false;
    if (!this.#cache.has(event.id)) this.#cache.add(event);
    return true;
  }

  /** Removes erased events: they are read again, with their erased data or not at all. */
  forget(eventIds: readonly number[]): void {
    this.#forgetCount += 1;
    for (const id of eventIds) {
      this.#cache.delete(id);
      this.#forgotten.set(id, this.#forgetCount);
    }
  }

  /** Removes all events, after notifications may have been missed. */
  forgetAll(): void {
    this.forget(this.#cache.ids());
    this.#allForgotten = this.#forgetCount;
  }

  /** Counts a delivery of the event in memory; after the last `release` the event is dropped. */
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
   * Loads missing events in one statement, in the order of their ids' list and up to a share of the cache; the others
   * are loaded when they are sent. Without the limit 200 deliveries of 50 lanes could be 2.5 GB. Erased events stay
   * missing.
   */
  async load(shard: number, eventIds: readonly number[]): Promise<void> {
    const missing = [...new Set(eventIds)].filter((id) => !this.#cache.has(id));
    if (missing.length === 0) return;
    const readAt = this.#forgetCount;
    for (const event of await loadEvents(this.#sql, shard, missing, this.#loadBytes)) this.put(event, readAt);
  }

  /** Returns an event from memory or the table; undefined if it was erased or its partition was dropped. */
  async find(shard: number, eventId: number): Promise<Body | undefined> {
    const present = this.peek(eventId);
    if (present !== undefined) return present;
    const readAt = this.#forgetCount;
    const [event] = await loadEvents(this.#sql, shard, [eventId]);
    if (event === undefined) return undefined;
    if (!this.put(event, readAt)) return this.find(shard, eventId);
    // An event larger than the whole cache is not cached.
    return this.peek(eventId) ?? { event, rendered: null };
  }

  /**
   * Returns the body: for `json` byte for byte the representation that GET returns with the webhook's query, otherwise
   * that of the format.
   */
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
