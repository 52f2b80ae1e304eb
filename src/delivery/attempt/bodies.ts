/** Caches events, each for as long as a delivery of it is in memory, within a byte limit. */
import { createCipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { type EventKey, type EventRow, loadEvents } from '../delivery-sql.ts';
import type { Body } from './attempt-request.ts';

export const ENCRYPTED_TYPE = 'application/jose';

const NONCE_BYTES = 12;
const KEY_ID_CHARACTERS = 16;

/**
 * Returns the id that distinguishes two keys of a webhook during a rotation: an HMAC over `kid`, which a receiver can
 * compute from its key. Without the key it reveals no more than the signature; a plain hash (RFC 7638 §7 warns of it)
 * would allow a weak key to be looked up in a precomputed table.
 */
const keyIdOf = (encryptionKey: string): string =>
  createHmac('sha256', encryptionKey).update('kid').digest('hex').slice(0, KEY_ID_CHARACTERS);

/** `cty` is the content type without `application/` (RFC 7516 §4.1.12). */
const protectedHeader = (contentType: string, encryptionKey: string): string =>
  JSON.stringify({
    alg: 'dir',
    enc: 'A256GCM',
    kid: keyIdOf(encryptionKey),
    cty: contentType.replace('application/', ''),
  });

/**
 * Returns a body encrypted for plain http: JWE compact serialization (RFC 7516 §3.1, §7.1), `dir` and `A256GCM` (RFC 7518 §4.5, §5.3).
 * The cipher's key is the SHA-256 of the whole `encryption_key` string in UTF-8.
 */
export function encryptBody(body: Uint8Array, contentType: string, encryptionKey: string): Uint8Array {
  const head = Buffer.from(protectedHeader(contentType, encryptionKey)).toString('base64url');
  const key = createHash('sha256').update(encryptionKey).digest();
  const nonce = randomBytes(NONCE_BYTES);
  // `jose` is asynchronous, so that webhook, lease and current key would have to be checked again afterwards, and takes 71 µs of
  // processor time per KB instead of 30. The tests decrypt with it.
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(head));
  const text = Buffer.concat([cipher.update(body), cipher.final()]);
  // The second part, the encrypted key, is empty with `dir`.
  const parts = [head, '', ...[nonce, text, cipher.getAuthTag()].map((bytes) => bytes.toString('base64url'))];
  return Buffer.from(parts.join('.'), 'latin1');
}

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
   * Decrements the count of an event. An event cached after some of its deliveries had ended is dropped too early; the remaining
   * deliveries read it again.
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
  readonly #sql: Runtime['sql'];
  readonly #cache: EventCache;
  /** Limit of text bytes per statement; several statements run at once. */
  readonly #loadBytes: number;
  /** By event, the value of `#forgetCount` when it was last forgotten: older reads of it are rejected. */
  readonly #forgotten = new LRUCache<number, number>(entriesUpTo(FORGOTTEN_MAX));
  #forgetCount = 0;
  /** The value of `#forgetCount` when notifications may last have been missed, which may concern any event. */
  #allForgotten = 0;

  constructor({ sql }: Pick<Runtime, 'sql'>, { bodyCacheBytes }: { bodyCacheBytes: number }) {
    this.#sql = sql;
    this.#cache = new EventCache(bodyCacheBytes);
    this.#loadBytes = Math.ceil(bodyCacheBytes * LOAD_SHARE);
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

  /** Returns the cached event; undefined for the one of another store, because no constraint prevents that both have one id. */
  peek({ storeId, eventId }: EventKey): Body | undefined {
    const body = this.#cache.get(eventId);
    return body?.event.storeId === storeId ? body : undefined;
  }

  /**
   * Loads missing events in one statement, in the order of the deliveries and up to a share of the cache; the others
   * are loaded when they are sent. Without the limit 200 deliveries of 50 lanes could be 2.5 GB. Erased events stay
   * missing.
   */
  async load(deliveries: readonly EventKey[]): Promise<void> {
    const byEvent = new Map(deliveries.map((delivery) => [delivery.eventId, delivery]));
    const missing = [...byEvent.values()].filter(({ eventId }) => !this.#cache.has(eventId));
    if (missing.length === 0) return;
    const readAt = this.#forgetCount;
    for (const event of await loadEvents(this.#sql, missing, this.#loadBytes)) this.put(event, readAt);
  }

  /** Returns an event from memory or the table; undefined if it was erased or its partition was dropped. */
  async find(key: EventKey): Promise<Body | undefined> {
    const present = this.peek(key);
    if (present !== undefined) return present;
    const readAt = this.#forgetCount;
    const [event] = await loadEvents(this.#sql, [key]);
    if (event === undefined) return undefined;
    if (!this.put(event, readAt)) return this.find(key);
    // An event larger than the whole cache is not cached.
    return this.peek(key) ?? { event, rendered: null };
  }
}
