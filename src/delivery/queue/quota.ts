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
type Waiting<L> = Record<Speed, Fifo<L>>;

export class Quota<K, L> {
  readonly #limit: number;
  /** Of keys with exchanges under way: as many as there are of these, at most. */
  readonly #held = new Map<K, number>();
  readonly #waiting = new Map<K, Waiting<L>>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  hasRoom(key: K): boolean {
    return (this.#held.get(key) ?? 0) < this.#limit;
  }

  take(key: K): void {
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
  }

  release(key: K): void {
    const held = (this.#held.get(key) ?? 0) - 1;
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }

  /** `isFirst`: it was woken already, and somebody of another speed took the room. */
  park(key: K, speed: Speed, lane: L, isFirst: boolean): void {
    let waiting = this.#waiting.get(key);
    if (waiting === undefined) {
      waiting = { proven: new Fifo(), unproven: new Fifo(), slow: new Fifo() };
      this.#waiting.set(key, waiting);
    }
    if (isFirst) waiting[speed].unshift(lane);
    else waiting[speed].push(lane);
  }

  /** The next of that speed who waited for this key, when there is room for it. */
  wake(key: K, speed: Speed): L | undefined {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined || !this.hasRoom(key)) return undefined;
    const lane = waiting[speed].shift();
    if (waiting.proven.size + waiting.unproven.size + waiting.slow.size === 0) this.#waiting.delete(key);
    return lane;
  }

  /** Lets go of lanes that wait no more. */
  prune(isOver: (lane: L) => boolean): void {
    for (const [key, waiting] of this.#waiting) {
      for (const lanes of [waiting.proven, waiting.unproven, waiting.slow]) lanes.prune(isOver);
      if (waiting.proven.size + waiting.unproven.size + waiting.slow.size === 0) this.#waiting.delete(key);
    }
  }
}
