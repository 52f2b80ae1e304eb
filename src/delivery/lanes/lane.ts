/**
 * One webhook with work, in the memory of its shard's owner (docs/delivery-states.md has the diagram). Pure bookkeeping:
 * what is queued, what is known, whether the table has more. Whoever owns the lane does the input and output.
 */
import type { Waited } from '../dispatch/turns.ts';
import type { Health } from '../policy/policy.ts';
import { Gate } from './gate.ts';
import type { Target } from './target.ts';
import { Tempo, type Speed } from './tempo.ts';

/** A pending delivery: a row of `delivery` without its shard. */
export type Pending = {
  id: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  eventId: number;
  attempts: number;
  /** Of our own, in a row (policy/own-faults.ts). */
  faults: number;
  /** When the next attempt was due: the first one when it was published. By the clock of whoever wrote it. */
  dueAt: Date;
};

export type FetchedRow = Pending;

export type LaneLimits = { laneQueue: number; slotsPerLane: number; slotsPerSlowLane: number };

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
  /** How fast its endpoint is, and how many exchanges at once that makes. */
  readonly tempo: Tempo;
  /** The settings to send by; null until loaded, and after the webhook changed. */
  target: Target | null = null;
  /** Counts the changes of the webhook we were told of, so that a load that began before one is not believed. */
  changes = 0;
  /** Counted here alone while the shard is ours, epoch by epoch: the table's row is behind by what is not recorded. */
  health: (Health & { epoch: number }) | null = null;
  /** Whether it is paused, probed or paced. */
  readonly gate = new Gate();
  /** The epoch in which an outcome demanded the switch-off: nothing more is sent in it. */
  condemnedEpoch: number | null = null;
  /** When the earliest delivery that is not due yet becomes due. */
  wakeAtMs = Number.POSITIVE_INFINITY;
  /** Stands in the ring of ready lanes, since `ticket`, or is parked until its store or its origin has room. */
  isListed = false;
  ticket = 0;
  waited: Waited | null = null;
  /** The shard was lost: nothing more may start here. */
  isClosed = false;

  constructor(shard: number, webhookId: number, limits: LaneLimits, tempo = new Tempo(limits)) {
    this.shard = shard;
    this.webhookId = webhookId;
    this.#limits = limits;
    this.tempo = tempo;
  }

  get speed(): Speed {
    return this.tempo.speed(this.health !== null && this.health.consecutiveFailures > 0);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** What is sent next. */
  get first(): Pending | undefined {
    return this.#queue[0];
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

  /** Queued, in flight, or sent and not yet recorded. */
  knows(id: number): boolean {
    return this.#known.has(id);
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

  /** There is something to send, and nothing is known of where to. */
  get wantsTarget(): boolean {
    return this.target === null && (this.#more || this.#queue.length > 0);
  }

  get wantsFetch(): boolean {
    if (!this.#more || this.#departed !== null || this.#queue.length > this.#limits.laneQueue / 4) return false;
    // A webhook that is off ends what it has batch by batch: a large backlog must not crowd out what is sent.
    return this.target?.isActive !== false || this.#known.size === this.#queue.length;
  }

  get queued(): number {
    return this.#queue.length;
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
    for (const delivery of rows) {
      if (departed.has(delivery.id) || this.#known.has(delivery.id)) continue;
      const dueAtMs = delivery.dueAt.getTime();
      if (dueAtMs > nowMs) {
        this.wakeAtMs = Math.min(this.wakeAtMs, dueAtMs);
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

  /** `monotonicMs` as the gate has it. */
  mayStart(monotonicMs: number): boolean {
    const { target } = this;
    if (this.isClosed || target?.isActive !== true || this.condemnedEpoch === target.epoch) return false;
    if (this.#queue.length === 0 || this.#inFlight >= this.tempo.atOnce) return false;
    return this.gate.admits(this.#inFlight, monotonicMs);
  }

  /** The next delivery, now in flight. */
  take(): Pending | undefined {
    const delivery = this.#queue.shift();
    if (delivery === undefined) return undefined;
    this.#inFlight += 1;
    this.gate.started();
    return delivery;
  }

  /** A delivery that was taken and could not be sent after all: first in the queue again. */
  putBack(delivery: Pending): void {
    this.landed();
    this.requeue(delivery);
  }

  /** One that has landed without an outcome. */
  requeue(delivery: Pending): void {
    this.#queue.unshift(delivery);
  }

  /** What is queued with an epoch before this one: dead since the switch-off. They stay known until recorded. */
  takeOlderThan(epoch: number): Pending[] {
    const older = this.#queue.filter((delivery) => delivery.epoch < epoch);
    if (older.length > 0) this.#queue.splice(0, this.#queue.length, ...this.#queue.filter((one) => one.epoch >= epoch));
    return older;
  }

  /** The exchange is over; the delivery stays known until its record is committed. */
  landed(): void {
    this.#inFlight -= 1;
    this.gate.ended();
  }

  /** The record is committed: the delivery ended, or is due again at `dueAtMs`. */
  settle(id: number, dueAtMs: number | null): void {
    this.#known.delete(id);
    this.#departed?.add(id);
    if (dueAtMs !== null) this.wakeAtMs = Math.min(this.wakeAtMs, dueAtMs);
  }
}
