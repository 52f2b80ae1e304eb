/**
 * What a lane holds of its part of the table, and whether there is more (docs/delivery-states.md has the two rules that keep
 * a fetch from sending twice and from losing). Pure bookkeeping; whoever owns the lane does the input and output.
 */

import { Room } from './memory-limit.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
  /** Of our own, in a row (delivery/policy/own-faults.ts). */
  faults: number;
  /** When the next attempt was due: the first one when it was published. By the clock of whoever wrote it. */
  dueAt: Date;
};

/** At most so many rows, due at `fromMs` or later; begun at `beganMs`, by the wall clock. */
export type Fetch = { asked: number; fromMs: number; beganMs: number };

/**
 * A fetch begins this long before the first row of the one before. Rows that ended stay in the index while an old transaction
 * is open, and to walk over 300,000 of them took 180 ms a fetch. Ids and due times commit out of order, but by far less.
 */
const OVERLAP_MS = 60_000;
/** And so often it begins at the beginning, for what a clock that was set wrote further back. */
const WHOLE_EVERY_MS = 30_000;

export class Holding {
  readonly #most: number;
  readonly #room: Room;
  #queue: Pending[] = [];
  /** Queued, in flight, or sent and not yet recorded: of which event each is. */
  readonly #known = new Map<number, number>();
  /** What left memory while a fetch was under way, which may have read those rows before they ended. */
  #departed: Set<number> | null = null;
  /** A hand-over was dropped since the last fetch began. */
  #dropped = false;
  #more = false;
  /** How many fetches have ended. */
  fetches = 0;
  #isDropped = false;
  /** Where the next fetch begins, and when one began at the beginning. */
  #fromMs = 0;
  #wholeAtMs = Number.NEGATIVE_INFINITY;
  /** When the earliest delivery that is not due yet becomes due, by the wall clock. */
  wakeAtMs = Number.POSITIVE_INFINITY;

  /** `most`: how many it queues, where there is room. */
  constructor(most: number, room = new Room(Number.POSITIVE_INFINITY)) {
    this.#most = most;
    this.#room = room;
  }

  get #limit(): number {
    return Math.min(this.#most, this.#room.perLane);
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
    if (!this.takesOffers) this.lookAgain();
    else if (!this.#known.has(delivery.id)) this.#queueUp(delivery);
  }

  /** Whether it would queue one that it is offered now. */
  get takesOffers(): boolean {
    return !this.#more && this.#queue.length < this.#limit;
  }

  knows(id: number): boolean {
    return this.#known.has(id);
  }

  /** Something may be in the table that is not here. */
  lookAgain(): void {
    this.#more = true;
    this.#dropped = true;
  }

  /** Its lane is closed: what it holds takes no room any more. */
  drop(): void {
    if (!this.#isDropped) for (const eventId of this.#known.values()) this.#room.remove(eventId);
    this.#isDropped = true;
  }

  get hasWork(): boolean {
    return this.#more || this.#queue.length > 0;
  }

  /** A fetch would be of use: there is more, there is room for it, and none is under way. */
  get isHungry(): boolean {
    return this.#more && this.#departed === null && this.#queue.length <= this.#limit / 4;
  }

  get isEmpty(): boolean {
    return !this.hasWork && this.#known.size === 0 && this.#departed === null && this.wakeAtMs === Infinity;
  }

  /** Nothing is in flight, and nothing unrecorded: what is queued is in the table as well. */
  get isSettled(): boolean {
    return this.#known.size === this.#queue.length;
  }

  /** And no fetch is under way: it may be forgotten, and found again in the table. */
  get isAtRest(): boolean {
    return this.isSettled && this.#departed === null;
  }

  /** Begins a fetch: of how many rows, those that are known among them, and due from when on. */
  beginFetch(nowMs: number): Fetch {
    this.#departed = new Set();
    this.#dropped = false;
    if (Math.abs(nowMs - this.#wholeAtMs) >= WHOLE_EVERY_MS) {
      this.#wholeAtMs = nowMs;
      this.#fromMs = 0;
    }
    return {
      asked: Math.max(1, this.#limit - this.#queue.length) + this.#known.size,
      fromMs: this.#fromMs,
      beganMs: nowMs,
    };
  }

  /** Takes the rows of a fetch, which come in order of `dueAt`. They leave out what is known and what departed. */
  endFetch(rows: readonly Pending[], { asked, fromMs, beganMs }: Fetch, nowMs: number): void {
    const departed = this.#departed ?? new Set();
    this.#departed = null;
    this.fetches += 1;
    let isExhausted = rows.length < asked;
    for (const delivery of rows) {
      if (departed.has(delivery.id) || this.#known.has(delivery.id)) continue;
      if (delivery.dueAt.getTime() > nowMs) {
        this.#wakeBy(delivery.dueAt.getTime());
        isExhausted = true;
        break;
      }
      this.#queueUp(delivery);
    }
    if (rows[0] !== undefined) this.#fromMs = Math.max(0, Math.min(rows[0].dueAt.getTime(), beganMs) - OVERLAP_MS);
    if (!isExhausted || this.#dropped) return;
    this.#more = false;
    // What may be due before is looked for in its time.
    if (fromMs > 0) this.#wakeBy(this.#wholeAtMs + WHOLE_EVERY_MS);
  }

  /** The fetch failed: everything is as before it began. */
  abandonFetch(): void {
    this.#departed = null;
    this.#more = true;
  }

  /** The next delivery, no longer queued. */
  take(): Pending | undefined {
    return this.#queue.shift();
  }

  /** One that was taken without being settled: first in the queue again. */
  putBack(delivery: Pending): void {
    this.#queue.unshift(delivery);
  }

  /** What is queued with an epoch before this one: dead since the switch-off. They stay known until settled. */
  takeOlderThan(epoch: number): Pending[] {
    const older = this.#queue.filter((delivery) => delivery.epoch < epoch);
    if (older.length > 0) this.#queue = this.#queue.filter((delivery) => delivery.epoch >= epoch);
    return older;
  }

  /** The record is committed: the delivery ended, or is due again at `dueAtMs`. */
  settle(id: number, dueAtMs: number | null): void {
    const eventId = this.#known.get(id);
    this.#known.delete(id);
    if (eventId !== undefined && !this.#isDropped) this.#room.remove(eventId);
    this.#departed?.add(id);
    if (dueAtMs !== null) this.#wakeBy(dueAtMs);
  }

  #wakeBy(dueAtMs: number): void {
    this.wakeAtMs = Math.min(this.wakeAtMs, dueAtMs);
  }

  #queueUp(delivery: Pending): void {
    this.#known.set(delivery.id, delivery.eventId);
    this.#queue.push(delivery);
    if (!this.#isDropped) this.#room.add(delivery.eventId);
  }
}
