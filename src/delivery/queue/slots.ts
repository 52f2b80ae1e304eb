/**
 * The budget that keeps endpoints apart: who may have one more exchange under way (docs/delivery-states.md, "The budget").
 * Pure accounting; each question and each change costs the same, however many lanes there are.
 */
import type { Speed } from './latency-stats.ts';

export type SlotLimits = {
  /** Exchanges under way that are not in overdraft. */
  slots: number;
  /** Exchanges more, for those that began quick and turned slow. */
  overdraftSlots: number;
  /** What slow exchanges may have of the slots. */
  slowSlotsPercent: number;
  /** What lanes may have that never answered fast. */
  unprovenSlotsPercent: number;
  /** What first attempts get of their share before others, while one of them waits. */
  freshSlotsPercent: number;
  /** What repeated attempts get of their share before others, while one of them waits. */
  retrySlotsPercent: number;
};

/** What an exchange under way holds. `share` follows it when it turns slow. */
export type SlotUse = { speed: Speed; readonly isRetry: boolean };

/** At least one slot: a share of nothing would hold its lanes back for ever. */
export const shareOf = (slots: number, percent: number): number => Math.max(1, Math.floor((slots * percent) / 100));

/** How many exchanges one side of the budget has, by first and repeated attempts. */
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
  /** Exchanges that are not slow, of proven and unproven lanes. */
  readonly #regular: Budget;
  /** Exchanges of slow lanes, and all that turned slow: may be over its limit by the latter. */
  readonly #slow: Budget;
  readonly #newLimit: number;
  readonly #totalLimit: number;
  readonly #newTotalLimit: number;
  #newInFlight = 0;

  constructor(limits: SlotLimits) {
    const slow = shareOf(limits.slots, limits.slowSlotsPercent);
    // Two sides that lend each other nothing. When the quick ones could have what the slow ones left free, a flood of them
    // held back a slow lane for as long as it lasted; and quick exchanges need few slots: 10,000/s of 50 ms are 500.
    this.#slow = new Budget(slow, limits);
    this.#regular = new Budget(Math.max(1, limits.slots - slow), limits);
    this.#newLimit = Math.min(this.#regular.limit, shareOf(limits.slots, limits.unprovenSlotsPercent));
    this.#newTotalLimit = slow + limits.overdraftSlots;
    this.#totalLimit = this.#regular.limit + this.#newTotalLimit;
  }

  /** Whether a lane of this speed may start an exchange now. */
  mayStart(speed: Speed): boolean {
    if (speed === 'slow') return this.#slow.inUse < this.#slow.limit;
    if (speed === 'new' && !this.#mayStartNew()) return false;
    // The second bounds memory and sockets: those that began quick and hang leave the quick side, and do not end.
    return this.#regular.inUse < this.#regular.limit && this.inFlight < this.#totalLimit;
  }

  /** Whether first (or repeated) attempts have less than what is reserved for them, where a lane of this speed starts. */
  isBelowReserve(speed: Speed, isRetry: boolean): boolean {
    return (speed === 'slow' ? this.#slow : this.#regular).isBelowReserve(isRetry);
  }

  acquire(use: SlotUse): void {
    this.#add(use, 1);
  }

  /** The exchange is slow: whoever comes after it waits no longer for it. Nothing happens where it was before. */
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

  /** What the slow ones hold; above `slowLimit` it is overdraft. */
  get slowInFlight(): number {
    return this.#slow.inUse;
  }

  get slowLimit(): number {
    return this.#slow.limit;
  }

  get newInFlight(): number {
    return this.#newInFlight;
  }

  /** Without the second, 6,000 new ones that hang, of which each has turned slow, kept all others for as long as a time-out takes. */
  #mayStartNew(): boolean {
    return this.#newInFlight < this.#newLimit && this.inFlight < this.#newTotalLimit;
  }

  #add({ speed, isRetry }: SlotUse, by: 1 | -1): void {
    if (speed === 'slow') this.#slow.add(isRetry, by);
    else this.#regular.add(isRetry, by);
    if (speed === 'new') this.#newInFlight += by;
  }
}
