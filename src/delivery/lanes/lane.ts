/**
 * One webhook with work, in the memory of its shard's owner (docs/delivery-states.md has the diagram). Pure bookkeeping:
 * what is queued, what is known, whether the table has more. Whoever owns the lane does the input and output.
 */
import type { Health } from '../policy/policy.ts';
import type { Target } from './target.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
};

export type FetchedRow = Pending & { dueAt: Date };

export type LaneLimits = { laneQueue: number; slotsPerLane: number };

export class Lane {
  readonly shard: number;
  readonly webhookId: number;
  readonly #limits: LaneLimits;
  readonly #queue: Pending[] = [];
  /** Queued, in flight, or sent and not yet recorded. */
  readonly #known = new Set<number>();
  /** What left memory while a fetch was under way, which may have read those rows before they ended. */
  #departed: Set<number> | null = null;
  /** A hand-over was dropped since the last fetch began. */
  #dropped = false;
  #more = false;
  #inFlight = 0;
  /** Exchanges at once: starts at 1, grows with fast successes, falls to 1 on a time-out. */
  #cap = 1;
  /** The settings to send by; null until loaded, and after the webhook changed. */
  target: Target | null = null;
  /** Counts the changes of the webhook we were told of, so that a load that began before one is not believed. */
  changes = 0;
  /** Counted here alone while the shard is ours, epoch by epoch: the table's row is behind by what is not recorded. */
  health: (Health & { epoch: number }) | null = null;
  pausedUntilMs = 0;
  /** When the earliest delivery that is not due yet becomes due. */
  wakeAtMs = Number.POSITIVE_INFINITY;
  /** Stands in the dispatcher's ring. */
  isListed = false;
  /** The shard was lost: nothing more may start here. */
  isClosed = false;

  constructor(shard: number, webhookId: number, limits: LaneLimits) {
    this.shard = shard;
    this.webhookId = webhookId;
    this.#limits = limits;
  }

  /** A delivery straight from its commit. What does not fit stays in the table, and then so do all that follow. */
  offer(delivery: Pending): void {
    if (this.#more || this.#queue.length >= this.#limits.laneQueue) {
      this.#more = true;
      this.#dropped = true;
    } else if (!this.#known.has(delivery.id)) {
      this.#known.add(delivery.id);
      this.#queue.push(delivery);
    }
  }

  /** The webhook's row changed: nothing is sent before it was read again. */
  forgetTarget(): void {
    this.changes += 1;
    this.target = null;
  }

  /** Something may be in the table that is not here. */
  lookAgain(): void {
    this.#more = true;
    this.#dropped = true;
  }

  get wantsFetch(): boolean {
    if (!this.#more || this.#departed !== null || this.#queue.length > this.#limits.laneQueue / 4) return false;
    // A webhook that is off ends what it has batch by batch: a large backlog must not crowd out what is sent.
    return this.target?.isActive !== false || this.#known.size === this.#queue.length;
  }

  get isIdle(): boolean {
    return (
      !this.#more && this.#known.size === 0 && this.#departed === null && this.wakeAtMs === Number.POSITIVE_INFINITY
    );
  }

  /** Nothing of this lane is outside the table: its shard can be handed back. */
  get isEmptyHanded(): boolean {
    return this.#known.size === this.#queue.length;
  }

  /** Begins a fetch; answers how many rows to ask for, those that are known among them. */
  beginFetch(): number {
    this.#departed = new Set();
    this.#dropped = false;
    return this.#limits.laneQueue - this.#queue.length + this.#known.size;
  }

  /** Takes the rows of a fetch, which come in order of `dueAt`. They leave out what is known and what departed. */
  endFetch(rows: readonly FetchedRow[], asked: number, nowMs: number): void {
    const departed = this.#departed ?? new Set();
    this.#departed = null;
    let isExhausted = rows.length < asked;
    for (const { dueAt, ...delivery } of rows) {
      if (departed.has(delivery.id) || this.#known.has(delivery.id)) continue;
      if (dueAt.getTime() > nowMs) {
        this.wakeAtMs = Math.min(this.wakeAtMs, dueAt.getTime());
        isExhausted = true;
        break;
      }
      this.#known.add(delivery.id);
      this.#queue.push(delivery);
    }
    if (isExhausted && !this.#dropped) this.#more = false;
  }

  /** The fetch failed: everything is as before it began. */
  abandonFetch(): void {
    this.#departed = null;
    this.#more = true;
  }

  canSend(nowMs: number): boolean {
    const isHeld = this.isClosed || this.target?.isActive !== true || this.pausedUntilMs > nowMs;
    return !isHeld && this.#queue.length > 0 && this.#inFlight < this.#cap;
  }

  /** The next delivery, now in flight. */
  take(): Pending | undefined {
    const delivery = this.#queue.shift();
    if (delivery !== undefined) this.#inFlight += 1;
    return delivery;
  }

  /** A delivery that was taken and could not be sent after all: first in the queue again. */
  putBack(delivery: Pending): void {
    this.#inFlight -= 1;
    this.#queue.unshift(delivery);
  }

  /** What is queued with an epoch before this one: dead since the switch-off. They stay known until recorded. */
  takeOlderThan(epoch: number): Pending[] {
    const older = this.#queue.filter((delivery) => delivery.epoch < epoch);
    if (older.length > 0) this.#queue.splice(0, this.#queue.length, ...this.#queue.filter((one) => one.epoch >= epoch));
    return older;
  }

  /** The exchange is over; the delivery stays known until its record is committed. */
  landed(verdict: 'success' | 'failure' | 'time-out'): void {
    this.#inFlight -= 1;
    if (verdict === 'success') this.#cap = Math.min(this.#cap + 1, this.#limits.slotsPerLane);
    else if (verdict === 'time-out') this.#cap = 1;
  }

  /** The record is committed: the delivery ended, or is due again at `dueAtMs`. */
  settle(id: number, dueAtMs: number | null): void {
    this.#known.delete(id);
    this.#departed?.add(id);
    if (dueAtMs !== null) this.wakeAtMs = Math.min(this.wakeAtMs, dueAtMs);
  }
}
