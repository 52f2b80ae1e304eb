/**
 * The pending deliveries that a lane has in memory, and whether the table has more. Does no I/O. Two rules keep a fetch from sending
 * twice and from losing deliveries; they and the states are explained in delivery/README.md.
 *
 * ```
 *                 offer, endFetch           take                          complete (its record is committed)
 *   in the table ─────────────────► queued ──────► taken ────────────────────────────────────────► in the table, due later
 *   only, pending                   │  ▲            │  in flight · unrecorded · in quarantine        or in `delivery_done`
 *                      takeMatching │  └──requeue───┤
 *                                   └───────────────┘ ended without an attempt, and unrecorded
 * ```
 *
 * Every state but the outer ones is known here, and its row is pending in `delivery`.
 */
import type { Pending } from '../policy/entry.ts';

/**
 * What a lane may queue above the memory limit, and while its endpoint is not fast: enough to keep sending while the
 * next deliveries are fetched.
 */
const MIN_LANE_QUEUE = 4;

/** Keeps events cached as long as deliveries of them are in memory. */
export type EventRetainer = { hold: (eventId: number) => void; release: (eventId: number) => void };

const NO_RETAINER: EventRetainer = { hold: () => {}, release: () => {} };

/**
 * Limits how many deliveries all lanes together load. The rest of a backlog stays in the table.
 *
 * A delivery in memory takes 300 bytes, a lane 0.7 KB, or 1.6 KB with its settings (measured). The total is at most 300
 * bytes per delivery of the limit and 2.8 KB per lane: 30 MB and 28 MB with 10,000 lanes, the maximum (Lanes).
 */
export class MemoryLimit {
  readonly #limit: number;
  readonly #events: EventRetainer;
  #loaded = 0;

  /** `limit` is a number of deliveries. */
  constructor(limit: number, events: EventRetainer = NO_RETAINER) {
    this.#limit = limit;
    this.#events = events;
  }

  get loaded(): number {
    return this.#loaded;
  }

  /** How many deliveries one lane may queue now. */
  get perLane(): number {
    return this.#loaded < this.#limit ? Number.POSITIVE_INFINITY : MIN_LANE_QUEUE;
  }

  /** Counts a loaded delivery and retains its event. */
  add(eventId: number): void {
    this.#loaded += 1;
    this.#events.hold(eventId);
  }

  /** Uncounts a delivery and releases its event. */
  remove(eventId: number): void {
    this.#loaded -= 1;
    this.#events.release(eventId);
  }
}

/** At most `limit` rows, due at `fromMs` or later; started at `startedMs` by the wall clock. */
export type Fetch = { limit: number; fromMs: number; startedMs: number };

/** Fetched deliveries that must not be queued, by id, with their new due time in ms. */
export type Postponed = ReadonlyMap<number, number>;

export const NONE_POSTPONED: Postponed = new Map();

/**
 * A fetch begins this long before the first row of the previous one. Index entries of ended rows remain while an old
 * transaction is open: skipping 300,000 of them took 180 ms per fetch. Ids and due times commit out of order, but by
 * far less.
 */
const OVERLAP_MS = 60_000;
/** Interval at which a fetch begins at the first row again, to find rows written earlier by a clock that was wrong. */
const FULL_SCAN_EVERY_MS = 30_000;

export class LoadedDeliveries {
  readonly #maxQueued: number;
  readonly #memoryLimit: MemoryLimit;
  readonly #isFast: () => boolean;
  #queue: Pending[] = [];
  /** Queued, in flight or unrecorded deliveries, each with the id of its event. */
  readonly #known = new Map<number, number>();
  /**
   * The running fetch: the deliveries removed since it began, whose rows it may have read before, and whether an offered delivery was
   * dropped, whose row it may not have read.
   */
  #fetch: { readonly removed: Set<number>; hasMissed: boolean } | null = null;
  #hasMoreInTable = false;
  /** How many fetches have ended. */
  fetches = 0;
  /** Wall-clock time when the last fetch ended. */
  #fetchedAtMs = Number.NEGATIVE_INFINITY;
  #isReleased = false;
  #isOrdered = false;
  /** Due time at which the next fetch begins, and when the last full scan began. */
  #fromMs = 0;
  #fullScanAtMs = Number.NEGATIVE_INFINITY;
  #wakeAtMs = Number.POSITIVE_INFINITY;

  /**
   * `maxQueued` limits the queue of a fast endpoint while the memory limit is not reached. Others load a few deliveries:
   * beside 100,000 endpoints that hang, reading 200 rows per lane took 20 % of a worker's CPU time instead of 7 %.
   */
  constructor(
    maxQueued: number,
    memoryLimit = new MemoryLimit(Number.POSITIVE_INFINITY),
    isFast: () => boolean = () => true,
  ) {
    this.#maxQueued = maxQueued;
    this.#memoryLimit = memoryLimit;
    this.#isFast = isFast;
  }

  get #limit(): number {
    return Math.min(this.#maxQueued, this.#isFast() ? this.#memoryLimit.perLane : MIN_LANE_QUEUE);
  }

  /** The delivery that is sent next. */
  get first(): Pending | undefined {
    return this.#queue[0];
  }

  get isOrdered(): boolean {
    return this.#isOrdered;
  }

  /** Queues only fetched deliveries from now on, because each may have to wait for an earlier one that is not in memory. */
  setOrdered(isOrdered: boolean): void {
    if (isOrdered && !this.#isOrdered) this.returnQueued();
    this.#isOrdered = isOrdered;
  }

  /** The earliest due time that is still in the future, by the wall clock; infinite if there is none. */
  get wakeAtMs(): number {
    return this.#wakeAtMs;
  }

  wakeNoLaterThan(dueAtMs: number): void {
    this.#wakeAtMs = Math.min(this.#wakeAtMs, dueAtMs);
  }

  /** Marks that the table has deliveries that are due, once `wakeAtMs` is reached. */
  wake(nowMs: number): void {
    if (this.#wakeAtMs > nowMs) return;
    this.#wakeAtMs = Number.POSITIVE_INFINITY;
    this.markIncomplete();
  }

  get queued(): number {
    return this.#queue.length;
  }

  /**
   * Queues a delivery right after its commit. If it does not fit, it and all later ones stay in the table until a
   * fetch.
   */
  offer(delivery: Pending): void {
    if (!this.acceptsOffers) this.markIncomplete();
    else if (!this.#known.has(delivery.id)) this.#enqueue(delivery);
  }

  /**
   * Queues a delivery in front of all others, or moves it there; one with a running attempt stays as it is. A full queue takes none:
   * the delivery is fetched when it is due.
   */
  putFirst(delivery: Pending): void {
    if (!this.#known.has(delivery.id)) {
      if (this.#isOrdered || this.#queue.length >= this.#maxQueued) return this.markIncomplete();
      this.#enqueue(delivery);
    }
    const queued = this.#queue.find(({ id }) => id === delivery.id);
    if (queued !== undefined) this.#queue = [queued, ...this.#queue.filter((other) => other !== queued)];
  }

  /** Returns whether an offered delivery would be queued. */
  get acceptsOffers(): boolean {
    return !this.#hasMoreInTable && !this.#isOrdered && this.#queue.length < this.#limit;
  }

  has(id: number): boolean {
    return this.#known.has(id);
  }

  /** Returns whether a fetch may have read a row that was committed at this wall-clock time or later. */
  wasFetchedSince(committedMs: number): boolean {
    return this.#fetch !== null || this.#fetchedAtMs >= committedMs;
  }

  /** Marks that the table may have deliveries that are not in memory. */
  markIncomplete(): void {
    this.#hasMoreInTable = true;
    if (this.#fetch !== null) this.#fetch.hasMissed = true;
  }

  /** Frees the memory of a closed lane's deliveries. */
  release(): void {
    if (!this.#isReleased) for (const eventId of this.#known.values()) this.#memoryLimit.remove(eventId);
    this.#isReleased = true;
  }

  get hasWork(): boolean {
    return this.#hasMoreInTable || this.#queue.length > 0;
  }

  /** Returns whether to fetch: the table has more, the queue is at most a quarter full, and no fetch is running. */
  get needsFetch(): boolean {
    return this.#hasMoreInTable && this.#fetch === null && this.#queue.length <= this.#limit / 4;
  }

  get isEmpty(): boolean {
    return !this.hasWork && this.#known.size === 0 && this.#fetch === null && this.#wakeAtMs === Infinity;
  }

  /** No delivery is in flight or unrecorded, so the table has everything. */
  get isFullyRecorded(): boolean {
    return this.#known.size === this.#queue.length;
  }

  /** No fetch is running either: the lane can be removed and found again in the table. */
  get isEvictable(): boolean {
    return this.isFullyRecorded && this.#fetch === null;
  }

  /** Starts a fetch and returns its limit, which includes the known deliveries, and its first due time. */
  beginFetch(nowMs: number): Fetch {
    this.#fetch = { removed: new Set(), hasMissed: false };
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

  /** Adds the rows of a fetch, sorted by `dueAt`, except those that are known, were removed during the fetch or are postponed. */
  endFetch(
    rows: readonly Pending[],
    { limit, fromMs, startedMs }: Fetch,
    nowMs: number,
    postponed: Postponed = NONE_POSTPONED,
  ): void {
    if (this.#fetch === null) throw new Error('A fetch ended that did not begin');
    const { removed, hasMissed } = this.#fetch;
    this.#fetch = null;
    this.fetches += 1;
    this.#fetchedAtMs = nowMs;
    let isExhausted = rows.length < limit;
    for (const delivery of rows) {
      if (removed.has(delivery.id) || this.#known.has(delivery.id)) continue;
      const postponedMs = postponed.get(delivery.id);
      if (postponedMs !== undefined) {
        this.wakeNoLaterThan(postponedMs);
        continue;
      }
      if (delivery.dueAt.getTime() > nowMs) {
        this.wakeNoLaterThan(delivery.dueAt.getTime());
        isExhausted = true;
        break;
      }
      this.#enqueue(delivery);
    }
    if (rows[0] !== undefined) this.#fromMs = Math.max(0, Math.min(rows[0].dueAt.getTime(), startedMs) - OVERLAP_MS);
    if (!isExhausted || hasMissed) return;
    this.#hasMoreInTable = false;
    // Rows due before `fromMs` are found by the next full scan.
    if (fromMs > 0) this.wakeNoLaterThan(this.#fullScanAtMs + FULL_SCAN_EVERY_MS);
  }

  /** Ends a failed fetch without changes. */
  abandonFetch(): void {
    this.#fetch = null;
    this.#hasMoreInTable = true;
  }

  /** Removes and returns the next queued delivery. */
  take(): Pending | undefined {
    return this.#queue.shift();
  }

  /** Puts a delivery that was taken and not sent back in front. */
  requeue(delivery: Pending): void {
    if (!this.#known.has(delivery.id)) throw new Error(`Delivery ${delivery.id} has ended or was not taken`);
    this.#queue.unshift(delivery);
  }

  /** Removes and returns the queued deliveries that match. They stay known until their end is recorded. */
  takeMatching(matches: (delivery: Pending) => boolean): Pending[] {
    const taken = this.#queue.filter(matches);
    if (taken.length > 0) this.#queue = this.#queue.filter((delivery) => !matches(delivery));
    return taken;
  }

  /**
   * Removes a delivery whose record is committed: it ended, or is due again at `dueAtMs`. The end of an ordered one may have made the
   * next due.
   */
  complete(id: number, dueAtMs: number | null): void {
    if (this.#isOrdered && dueAtMs === null) this.markIncomplete();
    const eventId = this.#known.get(id);
    this.#known.delete(id);
    if (eventId !== undefined && !this.#isReleased) this.#memoryLimit.remove(eventId);
    this.#fetch?.removed.add(id);
    if (dueAtMs !== null) this.wakeNoLaterThan(dueAtMs);
  }

  /** Empties the queue: its deliveries are fetched again. */
  returnQueued(): void {
    for (const { id } of this.takeMatching(() => true)) this.complete(id, null);
    this.markIncomplete();
  }

  #enqueue(delivery: Pending): void {
    this.#known.set(delivery.id, delivery.eventId);
    this.#queue.push(delivery);
    if (!this.#isReleased) this.#memoryLimit.add(delivery.eventId);
  }
}
