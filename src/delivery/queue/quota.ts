/**
 * Limits the slots that one store or one origin may use. A lane without quota is blocked until an attempt of its store
 * or origin ends, so no list is ever searched.
 */
import type { Speed } from './latency-stats.ts';
import { Fifo } from './fifo.ts';

/**
 * Blocked lanes of one key by speed class. The classes wait for different slot shares, so a slow lane that is unblocked
 * and then waits for a slow slot must not delay a fast one.
 */
type BlockedLanes<L> = Record<Speed, Fifo<L>>;

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
