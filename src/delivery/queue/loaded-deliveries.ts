/**
 * What a lane holds of its part of the table, and whether there is more (docs/delivery-states.md has the two rules that keep
 * a fetch from sending twice and from losing). Pure bookkeeping; whoever owns the lane does the input and output.
 */

import { MemoryLimit } from './memory-limit.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
  /** Of our own, in a row (delivery/policy/internal-faults.ts). */
  faults: number;
  /** When the next attempt was due: the first one when it was published. By the clock of whoever wrote it. */
  dueAt: Date;
};

/** At most so many rows, due at `fromMs` or later; begun at `beganMs`, by the wall clock. */
export type Fetch = { limit: number; fromMs: number; startedMs: number };

/**
 * A fetch begins this long before the first row of the one before. Rows that ended stay in the index while an old transaction
 * is open, and to walk over 300,000 of them took 180 ms a fetch. Ids and due times commit out of order, but by far less.
 */
const OVERLAP_MS = 60_000;
/** And so often it begins at the beginning, for what a clock that was set wrote further back. */
const FULL_SCAN_EVERY_MS = 30_000;

export class LoadedDeliveries {
  readonly #maxQueued: number;
  readonly #memoryLimit: MemoryLimit;
  #queue: Pending[] = [];
  /** Queued, in flight, or sent and not yet recorded: of which event each is. */
  readonly #known = new Map<number, number>();
  /** What left memory while a fetch was under way, which may have read those rows before they ended. */
  #removedDuringFetch: Set<number> | null = null;
  /** A hand-over was dropped since the last fetch began. */
  #offerDropped = false;
  #hasMoreInTable = false;
  /** How many fetches have ended. */
  fetches = 0;
  #isReleased = false;
  /** Where the next fetch begins, and when one began at the beginning. */
  #fromMs = 0;
  #fullScanAtMs = Number.NEGATIVE_INFINITY;
  /** When the earliest delivery that is not due yet becomes due, by the wall clock. */
  wakeAtMs = Number.POSITIVE_INFINITY;

  /** `most`: how many it queues, where there is room. */
  constructor(maxQueued: number, memoryLimit = new MemoryLimit(Number.POSITIVE_INFINITY)) {
    this.#maxQueued = maxQueued;
    this.#memoryLimit = memoryLimit;
  }

  get #limit(): number {
    return Math.min(this.#maxQueued, this.#memoryLimit.perLane);
  }

  /** What is sent next. */
  get first(): Pending | undefined {
    return this.#queue[0];
  }

  get queued(): number {
    return this.#queue.length;
  }

  /** A delivery straight from its commit. What does not fit stays in the table, and then so do all that follow. */
  offer(delivery: Pending): void {
    if (!this.acceptsOffers) this.markIncomplete();
    else if (!this.#known.has(delivery.id)) this.#enqueue(delivery);
  }

  /** Whether it would queue one that it is offered now. */
  get acceptsOffers(): boolean {
    return !this.#hasMoreInTable && this.#queue.length < this.#limit;
  }

  has(id: number): boolean {
    return this.#known.has(id);
  }

  /** Something may be in the table that is not here. */
  markIncomplete(): void {
    this.#hasMoreInTable = true;
    this.#offerDropped = true;
  }

  /** Its lane is closed: what it holds takes no room any more. */
  release(): void {
    if (!this.#isReleased) for (const eventId of this.#known.values()) this.#memoryLimit.remove(eventId);
    this.#isReleased = true;
  }

  get hasWork(): boolean {
    return this.#hasMoreInTable || this.#queue.length > 0;
  }

  /** A fetch would be of use: there is more, there is room for it, and none is under way. */
  get needsFetch(): boolean {
    return this.#hasMoreInTable && this.#removedDuringFetch === null && this.#queue.length <= this.#limit / 4;
  }

  get isEmpty(): boolean {
    return !this.hasWork && this.#known.size === 0 && this.#removedDuringFetch === null && this.wakeAtMs === Infinity;
  }

  /** Nothing is in flight, and nothing unrecorded: what is queued is in the table as well. */
  get isFullyRecorded(): boolean {
    return this.#known.size === this.#queue.length;
  }

  /** And no fetch is under way: it may be forgotten, and found again in the table. */
  get isEvictable(): boolean {
    return this.isFullyRecorded && this.#removedDuringFetch === null;
  }

  /** Begins a fetch: of how many rows, those that are known among them, and due from when on. */
  beginFetch(nowMs: number): Fetch {
    this.#removedDuringFetch = new Set();
    this.#offerDropped = false;
    if (Math.abs(nowMs - this.#fullScanAtMs) >= FULL_SCAN_EVERY_MS) {
      this.#fullScanAtMs = nowMs;
      this.#fromMs = 0;
    }
    return {
      limit: Math.max(1, this.#limit - this.#queue.length) + this.#known.size,
      fromMs: this.#fromMs,
      startedMs: nowMs,
    };
  }

  /** Takes the rows of a fetch, which come in order of `dueAt`. They leave out what is known and what departed. */
  endFetch(rows: readonly Pending[], { limit, fromMs, startedMs }: Fetch, nowMs: number): void {
    const removed = this.#removedDuringFetch ?? new Set();
    this.#removedDuringFetch = null;
    this.fetches += 1;
    let isExhausted = rows.length < limit;
    for (const delivery of rows) {
      if (removed.has(delivery.id) || this.#known.has(delivery.id)) continue;
      if (delivery.dueAt.getTime() > nowMs) {
        this.#wakeNoLaterThan(delivery.dueAt.getTime());
        isExhausted = true;
        break;
      }
      this.#enqueue(delivery);
    }
    if (rows[0] !== undefined) this.#fromMs = Math.max(0, Math.min(rows[0].dueAt.getTime(), startedMs) - OVERLAP_MS);
    if (!isExhausted || this.#offerDropped) return;
    this.#hasMoreInTable = false;
    // What may be due before is looked for in its time.
    if (fromMs > 0) this.#wakeNoLaterThan(this.#fullScanAtMs + FULL_SCAN_EVERY_MS);
  }

  /** The fetch failed: everything is as before it began. */
  abandonFetch(): void {
    this.#removedDuringFetch = null;
    this.#hasMoreInTable = true;
  }

  /** The next delivery, no longer queued. */
  take(): Pending | undefined {
    return this.#queue.shift();
  }

  /** One that was taken without being settled: first in the queue again. */
  requeue(delivery: Pending): void {
    this.#queue.unshift(delivery);
  }

  /** What is queued with an epoch before this one: dead since the switch-off. They stay known until settled. */
  takeOlderThan(epoch: number): Pending[] {
    const older = this.#queue.filter((delivery) => delivery.epoch < epoch);
    if (older.length > 0) this.#queue = this.#queue.filter((delivery) => delivery.epoch >= epoch);
    return older;
  }

  /** The record is committed: the delivery ended, or is due again at `dueAtMs`. */
  complete(id: number, dueAtMs: number | null): void {
    const eventId = this.#known.get(id);
    this.#known.delete(id);
    if (eventId !== undefined && !this.#isReleased) this.#memoryLimit.remove(eventId);
    this.#removedDuringFetch?.add(id);
    if (dueAtMs !== null) this.#wakeNoLaterThan(dueAtMs);
  }

  #wakeNoLaterThan(dueAtMs: number): void {
    this.wakeAtMs = Math.min(this.wakeAtMs, dueAtMs);
  }

  #enqueue(delivery: Pending): void {
    this.#known.set(delivery.id, delivery.eventId);
    this.#queue.push(delivery);
    if (!this.#isReleased) this.#memoryLimit.add(delivery.eventId);
  }
}
