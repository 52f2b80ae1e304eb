/**
 * Accounts for the slots that separate slow endpoints from fast ones (docs/delivery-states.md, "The budget"). Does no
 * I/O; each operation is O(1), however many lanes there are.
 */
import type { Speed } from './lane-limits.ts';
import { Fifo } from '#core/fifo.ts';

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
