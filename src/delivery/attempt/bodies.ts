/** Caches events, each for as long as a delivery of it is in memory, within a byte limit. */
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Sql } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { type EventRow, loadEvents } from './event-sql.ts';
import type { Body } from './request.ts';

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

/** Number of events whose erasure is remembered, to reject outdated reads of them; a few bytes each. */
const FORGOTTEN_MAX = 100_000;
/**
 * Share of the cache size that one load may read. A text takes four times its bytes in memory: 4 MiB
 * of 64.
 */
const LOAD_SHARE = 1 / 16;

export class Bodies {
  readonly #sql: Sql;
  readonly #cache: EventCache;
  /** Limit of text bytes per statement; several statements run at once. */
  readonly #loadBytes: number;
  /** By event, the value of `#forgetCount` when it was last forgotten: older reads of it are rejected. */
  readonly #forgotten = new LRUCache<number, number>(entriesUpTo(FORGOTTEN_MAX));
  #forgetCount = 0;
  /** The value of `#forgetCount` when notifications may last have been missed, which may concern any event. */
  #allForgotten = 0;

  constructor(deps: { sql: Sql; bodyCacheBytes: number }) {
    this.#sql = deps.sql;
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
  async load(eventIds: readonly number[]): Promise<void> {
    const missing = [...new Set(eventIds)].filter((id) => !this.#cache.has(id));
    if (missing.length === 0) return;
    const readAt = this.#forgetCount;
    for (const event of await loadEvents(this.#sql, missing.map(shardOf), missing, this.#loadBytes))
      this.put(event, readAt);
  }

  /** Returns an event from memory or the table; undefined if it was erased or its partition was dropped. */
  async find(shard: number, eventId: number): Promise<Body | undefined> {
    const present = this.peek(eventId);
    if (present !== undefined) return present;
    const readAt = this.#forgetCount;
    const [event] = await loadEvents(this.#sql, [shard], [eventId]);
    if (event === undefined) return undefined;
    if (!this.put(event, readAt)) return this.find(shard, eventId);
    // An event larger than the whole cache is not cached.
    return this.peek(eventId) ?? { event, rendered: null };
  }
}
