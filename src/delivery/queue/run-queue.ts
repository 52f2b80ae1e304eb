/**
 * Chooses which lane sends next.
 *
 * Lanes that have something to send wait in one of six FIFO partitions: endpoint speed (fast, new, slow) × first
 * attempt or retry. A partition whose share of the slots is used up is skipped, so slow endpoints delay only each
 * other. Among the others the lane that has waited longest is next. Each operation is O(1), whether 10 or 100,000 lanes
 * wait. The slots separate slow endpoints from fast ones (docs/delivery-states.md, "The budget"). Does no I/O.
 */
import type { Lane } from './lane.ts';
import type { Pending } from '../policy/entry.ts';
import type { ActiveTarget } from '../attempt/delivery-target.ts';
import type { Speed } from './lane-limits.ts';
import { Fifo } from '#core/fifo.ts';

export type RunQueueLimits = SlotLimits & {
  /** Share of the slots that one store may use. */
  storeSlotsPercent: number;
  /** Share of the slots that all webhooks with one origin may use together. */
  originSlotsPercent: number;
};

/** A delivery that is being sent. It occupies a slot and the quotas of its store and origin until `release`. */
export type ScheduledAttempt = SlotUse & {
  readonly lane: Lane;
  readonly target: ActiveTarget;
  readonly delivery: Pending;
  /** Attempts of the lane in flight when it started, itself included. */
  readonly inFlight: number;
  /** It started while the circuit breaker was open, and then is the only one of its lane. */
  readonly isProbe: boolean;
  /** The fencing token of the shard at the start; the outcome is recorded only under this token. */
  fence: number | undefined;
  isOverBudget: boolean;
  /** The bucket of `Ages` that contains it, until it ends. */
  ageBucket: Set<ScheduledAttempt> | undefined;
};

type Partition = {
  readonly speed: Speed;
  readonly isRetry: boolean;
  readonly lanes: Fifo<Lane>;
  /** Lanes that were blocked come before lanes that were enqueued later, which would otherwise take their slot. */
  readonly unblocked: Fifo<Lane>;
};

/** A quota of a store or an origin that has a free slot, or that has none. */
type QuotaKey = { readonly quota: Quota<number | string, Lane>; readonly key: number | string };

/**
 * Where a lane is in the run queue: `outside`, because it has nothing to send or may not send it; `waiting` for its turn in a partition;
 * `blocked` until a quota has a free slot; or first in its partition with the quota that had one. A lane that does not use that slot
 * wakes the next one that the quota blocks.
 */
export type Place = 'outside' | 'waiting' | 'blocked' | QuotaKey;

const isClosed = (lane: Lane): boolean => lane.isClosed;
const SPEEDS = ['fast', 'new', 'slow'] as const satisfies readonly Speed[];

export class RunQueue {
  readonly slots: Slots;
  readonly #mayStart: (lane: Lane) => boolean;
  readonly #partitions: readonly Partition[] = SPEEDS.flatMap((speed) =>
    [false, true].map((isRetry) => ({ speed, isRetry, lanes: new Fifo<Lane>(), unblocked: new Fifo<Lane>() })),
  );
  readonly #stores: Quota<number | string, Lane>;
  readonly #origins: Quota<number | string, Lane>;
  #lastSequence = 0;

  /** `mayStart` returns whether the lane has something to send and is delayed by nothing but its place in the queue. */
  constructor(limits: RunQueueLimits, mayStart: (lane: Lane) => boolean) {
    this.slots = new Slots(limits);
    this.#mayStart = mayStart;
    this.#stores = new Quota(shareOf(limits.slots, limits.storeSlotsPercent));
    this.#origins = new Quota(shareOf(limits.slots, limits.originSlotsPercent));
  }

  /** Appends the lane to its partition. Does nothing if it is already queued or has nothing to send. */
  enqueue(lane: Lane): void {
    if (lane.place !== 'outside' || !this.#mayStart(lane)) return;
    this.#lastSequence += 1;
    lane.sequence = this.#lastSequence;
    lane.place = 'waiting';
    this.#partitionOf(lane).lanes.push(lane);
  }

  /** Removes and returns the next delivery to send, with a slot reserved for it; undefined if no lane may start. */
  dequeue(): ScheduledAttempt | undefined {
    for (let partition = this.#choose(); partition !== undefined; partition = this.#choose()) {
      const attempt = this.#takeFrom(partition);
      if (attempt !== undefined) return attempt;
    }
    return undefined;
  }

  /** Moves a running attempt that exceeds its time budget to the slow slots. */
  markSlow(attempt: ScheduledAttempt): void {
    attempt.isOverBudget = true;
    attempt.lane.latency.attemptBecameSlow();
    this.slots.markSlow(attempt);
  }

  /** Releases the slot and the quotas of an attempt and wakes lanes that were blocked on them. */
  release(attempt: ScheduledAttempt): void {
    attempt.lane.latency.attemptEnded(attempt.isOverBudget);
    this.slots.release(attempt);
    const { delivery, target } = attempt;
    this.#stores.release(delivery.storeId);
    this.#origins.release(target.origin);
    for (const speed of SPEEDS) {
      this.#wake(this.#stores, delivery.storeId, speed);
      this.#wake(this.#origins, target.origin, speed);
    }
  }

  /** Removes closed lanes, except unblocked ones: dequeuing them passes their slot to the next lane. */
  removeClosed(): void {
    for (const waiting of [...this.#partitions.map(({ lanes }) => lanes), this.#stores, this.#origins])
      waiting.prune(isClosed);
  }

  /**
   * Returns the partition whose first lane has waited longest among those that may start. Partitions below their
   * reserve (first attempts, retries) take precedence.
   */
  #choose(): Partition | undefined {
    let chosen: Partition | undefined;
    let chosenIsBelowReserve = false;
    let sequence = 0;
    for (const partition of this.#partitions) {
      const first = partition.unblocked.peek() ?? partition.lanes.peek();
      if (first === undefined || !this.slots.mayStart(partition.speed)) continue;
      const isBelowReserve = this.slots.isBelowReserve(partition.speed, partition.isRetry);
      if (
        chosen !== undefined &&
        (isBelowReserve === chosenIsBelowReserve ? first.sequence > sequence : chosenIsBelowReserve)
      )
        continue;
      [chosen, chosenIsBelowReserve, sequence] = [partition, isBelowReserve, first.sequence];
    }
    return chosen;
  }

  #takeFrom(partition: Partition): ScheduledAttempt | undefined {
    const lane = partition.unblocked.shift() ?? partition.lanes.shift();
    if (lane === undefined) return undefined;
    const freed = typeof lane.place === 'string' ? null : lane.place;
    lane.place = 'outside';
    const attempt = this.#start(lane, partition, freed !== null);
    // Wakes the next lane for the slot that this one did not use.
    if (freed !== null && attempt === undefined) this.#wake(freed.quota, freed.key, partition.speed);
    return attempt;
  }

  #start(lane: Lane, { speed, isRetry }: Partition, wasUnblocked: boolean): ScheduledAttempt | undefined {
    const { first, target } = lane;
    if (first === undefined || target?.isActive !== true || !this.#mayStart(lane)) return undefined;
    // The speed or the next delivery of the lane changed while it waited: it moves to the right partition and keeps its sequence
    // number.
    const partition = this.#partitionOf(lane);
    if (partition.speed !== speed || partition.isRetry !== isRetry) return this.#move(lane, partition);
    const exhausted = this.#exhaustedQuota(first.storeId, target.origin);
    if (exhausted !== null) {
      lane.place = 'blocked';
      exhausted.quota.block(exhausted.key, speed, lane, wasUnblocked);
      return undefined;
    }
    const delivery = lane.take();
    if (delivery === undefined) return undefined;
    this.#stores.acquire(delivery.storeId);
    this.#origins.acquire(target.origin);
    const attempt: ScheduledAttempt = {
      lane,
      target,
      delivery,
      speed,
      isRetry,
      inFlight: lane.inFlight,
      isProbe: lane.startConditions.isBreakerOpen,
      fence: undefined,
      isOverBudget: false,
      ageBucket: undefined,
    };
    this.slots.acquire(attempt);
    return attempt;
  }

  #move(lane: Lane, partition: Partition): undefined {
    lane.place = 'waiting';
    partition.lanes.push(lane);
  }

  #exhaustedQuota(storeId: number, origin: string): QuotaKey | null {
    if (!this.#stores.hasCapacity(storeId)) return { quota: this.#stores, key: storeId };
    if (!this.#origins.hasCapacity(origin)) return { quota: this.#origins, key: origin };
    return null;
  }

  /**
   * Wakes one lane of that speed class that was blocked on the key. Lanes that have nothing to send any more leave the
   * queue.
   */
  #wake(quota: QuotaKey['quota'], key: QuotaKey['key'], speed: Speed): void {
    for (;;) {
      const lane = quota.wake(key, speed);
      if (lane === undefined) return;
      lane.place = this.#mayStart(lane) ? 'waiting' : 'outside';
      if (lane.place === 'outside') continue;
      const partition = this.#partitionOf(lane);
      partition.unblocked.push(lane);
      if (partition.speed !== speed) continue;
      lane.place = { quota, key };
      return;
    }
  }

  #partitionOf({ speed, first }: Lane): Partition {
    const isRetry = first !== undefined && first.attempts > 0;
    for (const partition of this.#partitions)
      if (partition.speed === speed && partition.isRetry === isRetry) return partition;
    throw new Error(`no partition for speed ${speed}`);
  }
}

/**
 * Blocked lanes of one key by speed class. The classes wait for different slot shares, so a slow lane that is unblocked
 * and then waits for a slow slot must not delay a fast one.
 */
type BlockedLanes<L> = Record<Speed, Fifo<L>>;

/**
 * Limits the slots that one store or one origin may use. A lane without quota is blocked until an attempt of its store or
 * origin ends, so no list is ever searched.
 */
export class Quota<K, L> {
  readonly #limit: number;
  /** Slots in use, for keys with attempts in flight only. */
  readonly #inUse = new Map<K, number>();
  readonly #blocked = new Map<K, BlockedLanes<L>>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  hasCapacity(key: K): boolean {
    return (this.#inUse.get(key) ?? 0) < this.#limit;
  }

  acquire(key: K): void {
    this.#inUse.set(key, (this.#inUse.get(key) ?? 0) + 1);
  }

  release(key: K): void {
    const inUse = (this.#inUse.get(key) ?? 0) - 1;
    if (inUse > 0) this.#inUse.set(key, inUse);
    else this.#inUse.delete(key);
  }

  /** Blocks a lane. `isFirst`: it was unblocked before, but a lane of another speed class took the slot. */
  block(key: K, speed: Speed, lane: L, isFirst: boolean): void {
    let blocked = this.#blocked.get(key);
    if (blocked === undefined) {
      blocked = { fast: new Fifo(), new: new Fifo(), slow: new Fifo() };
      this.#blocked.set(key, blocked);
    }
    if (isFirst) blocked[speed].unshift(lane);
    else blocked[speed].push(lane);
  }

  /** Returns the next blocked lane of that speed class if the key has a free slot. */
  wake(key: K, speed: Speed): L | undefined {
    const blocked = this.#blocked.get(key);
    if (blocked === undefined || !this.hasCapacity(key)) return undefined;
    const lane = blocked[speed].shift();
    if (blocked.fast.size + blocked.new.size + blocked.slow.size === 0) this.#blocked.delete(key);
    return lane;
  }

  /** Removes lanes that need not wait any more. */
  prune(shouldRemove: (lane: L) => boolean): void {
    for (const [key, blocked] of this.#blocked) {
      for (const lanes of [blocked.fast, blocked.new, blocked.slow]) lanes.prune(shouldRemove);
      if (blocked.fast.size + blocked.new.size + blocked.slow.size === 0) this.#blocked.delete(key);
    }
  }
}

export type SlotLimits = {
  /** Attempts in flight, without the overdraft. */
  slots: number;
  /** Additional attempts for those that became slow in flight. */
  overdraftSlots: number;
  /** Share of the slots for slow attempts. */
  slowSlotsPercent: number;
  /** Share of the slots for new endpoints, which never responded fast. */
  newSlotsPercent: number;
  /** Reserve of first attempts: below it they take precedence. */
  freshSlotsPercent: number;
  /** Reserve of retries: below it they take precedence. */
  retrySlotsPercent: number;
};

/** What an attempt occupies. `speed` changes when it becomes slow. */
export type SlotUse = { speed: Speed; readonly isRetry: boolean };

/** Returns a share of the slots, at least 1: with none its lanes would wait for ever. */
export function shareOf(slots: number, percent: number): number {
  return Math.max(1, Math.floor((slots * percent) / 100));
}

/** One of the two slot budgets, counted by first attempts and retries. */
class Budget {
  readonly limit: number;
  readonly #limits: SlotLimits;
  #first = 0;
  #retries = 0;

  constructor(limit: number, limits: SlotLimits) {
    this.limit = limit;
    this.#limits = limits;
  }

  get inUse(): number {
    return this.#first + this.#retries;
  }

  add(isRetry: boolean, by: 1 | -1): void {
    if (isRetry) this.#retries += by;
    else this.#first += by;
  }

  isBelowReserve(isRetry: boolean): boolean {
    const { freshSlotsPercent, retrySlotsPercent } = this.#limits;
    if (isRetry) return this.#retries < shareOf(this.limit, retrySlotsPercent);
    return this.#first < shareOf(this.limit, freshSlotsPercent);
  }
}

export class Slots {
  /** Attempts that are not slow, of fast and new lanes. */
  readonly #regular: Budget;
  /** Attempts of slow lanes and attempts that became slow; the latter may exceed the limit. */
  readonly #slow: Budget;
  readonly #newLimit: number;
  readonly #totalLimit: number;
  readonly #newTotalLimit: number;
  #newInFlight = 0;

  constructor(limits: SlotLimits) {
    const slow = shareOf(limits.slots, limits.slowSlotsPercent);
    // The two budgets lend each other nothing. When fast lanes could use free slow slots, a flood of them blocked a
    // slow lane as long as it lasted; and fast attempts need few slots: 10,000/s of 50 ms need 500.
    this.#slow = new Budget(slow, limits);
    this.#regular = new Budget(Math.max(1, limits.slots - slow), limits);
    this.#newLimit = Math.min(this.#regular.limit, shareOf(limits.slots, limits.newSlotsPercent));
    this.#newTotalLimit = slow + limits.overdraftSlots;
    this.#totalLimit = this.#regular.limit + this.#newTotalLimit;
  }

  /** Returns whether a lane of this speed may start an attempt now. */
  mayStart(speed: Speed): boolean {
    if (speed === 'slow') return this.#slow.inUse < this.#slow.limit;
    if (speed === 'new' && !this.#mayStartNew()) return false;
    // The total limit bounds memory and sockets: attempts that became slow left the regular budget but are still in
    // flight.
    return this.#regular.inUse < this.#regular.limit && this.inFlight < this.#totalLimit;
  }

  /** Returns whether first attempts (or retries) are below their reserve in the budget of this speed. */
  isBelowReserve(speed: Speed, isRetry: boolean): boolean {
    return (speed === 'slow' ? this.#slow : this.#regular).isBelowReserve(isRetry);
  }

  acquire(use: SlotUse): void {
    this.#add(use, 1);
  }

  /** Moves the attempt to the slow budget, so that fast lanes do not wait for it. Has no effect on a slow one. */
  markSlow(use: SlotUse): void {
    this.#add(use, -1);
    use.speed = 'slow';
    this.#add(use, 1);
  }

  release(use: SlotUse): void {
    this.#add(use, -1);
  }

  get inFlight(): number {
    return this.#regular.inUse + this.#slow.inUse;
  }

  /** Slow attempts in flight; above `slowLimit` they are overdraft. */
  get slowInFlight(): number {
    return this.#slow.inUse;
  }

  get slowLimit(): number {
    return this.#slow.limit;
  }

  get newInFlight(): number {
    return this.#newInFlight;
  }

  /**
   * The total limit matters: without it, 6,000 new endpoints that hang, each of which became slow, blocked all others
   * for a time-out.
   */
  #mayStartNew(): boolean {
    return this.#newInFlight < this.#newLimit && this.inFlight < this.#newTotalLimit;
  }

  #add({ speed, isRetry }: SlotUse, by: 1 | -1): void {
    if (speed === 'slow') this.#slow.add(isRetry, by);
    else this.#regular.add(isRetry, by);
    if (speed === 'new') this.#newInFlight += by;
  }
}
