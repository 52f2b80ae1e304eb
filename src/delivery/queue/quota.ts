/**
 * How much of the slots one store (or one origin) may have, and who waits for it. A lane that is held back is parked, and woken
 * when something of its store (its origin) ends: nobody is looked through.
 */
import type { Speed } from './latency-stats.ts';
import { Fifo } from './fifo.ts';

/**
 * Who waits for one key, apart by how fast they are: they wait for different shares of the slots, so a slow one that is woken
 * and then waits for the slow ones' share must not stand in the way of a quick one.
 */
type BlockedLanes<L> = Record<Speed, Fifo<L>>;

export class Quota<K, L> {
  readonly #limit: number;
  /** Of keys with exchanges under way: as many as there are of these, at most. */
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

  /** `isFirst`: it was woken already, and somebody of another speed took the room. */
  block(key: K, speed: Speed, lane: L, isFirst: boolean): void {
    let blocked = this.#blocked.get(key);
    if (blocked === undefined) {
      blocked = { fast: new Fifo(), new: new Fifo(), slow: new Fifo() };
      this.#blocked.set(key, blocked);
    }
    if (isFirst) blocked[speed].unshift(lane);
    else blocked[speed].push(lane);
  }

  /** The next of that speed who waited for this key, when there is room for it. */
  wake(key: K, speed: Speed): L | undefined {
    const blocked = this.#blocked.get(key);
    if (blocked === undefined || !this.hasCapacity(key)) return undefined;
    const lane = blocked[speed].shift();
    if (blocked.fast.size + blocked.new.size + blocked.slow.size === 0) this.#blocked.delete(key);
    return lane;
  }

  /** Lets go of lanes that wait no more. */
  prune(shouldRemove: (lane: L) => boolean): void {
    for (const [key, blocked] of this.#blocked) {
      for (const lanes of [blocked.fast, blocked.new, blocked.slow]) lanes.prune(shouldRemove);
      if (blocked.fast.size + blocked.new.size + blocked.slow.size === 0) this.#blocked.delete(key);
    }
  }
}
