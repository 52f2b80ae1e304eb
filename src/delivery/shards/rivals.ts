import type { WorkerRow } from './queries.ts';

/**
 * Who is alive, judged by nothing but how long a worker's counter stood still on our own monotonic clock: neither the
 * database's clock nor anybody's wall clock is trusted.
 */
export class Rivals {
  readonly #self: number;
  readonly #leaseMs: number;
  readonly #seen = new Map<number, { beat: number; sinceMs: number }>();

  constructor(self: number, leaseMs: number) {
    this.#self = self;
    this.#leaseMs = leaseMs;
  }

  observe(workers: readonly WorkerRow[], nowMs: number): void {
    const present = new Set(workers.map(({ id }) => id));
    for (const id of this.#seen.keys()) if (!present.has(id)) this.#seen.delete(id);
    for (const { id, beat } of workers) {
      if (this.#seen.get(id)?.beat !== beat) this.#seen.set(id, { beat, sinceMs: nowMs });
    }
  }

  #isDead(seen: { sinceMs: number }, nowMs: number): boolean {
    return nowMs - seen.sinceMs > this.#leaseMs;
  }

  dead(nowMs: number): number[] {
    return [...this.#seen].filter(([id, seen]) => id !== this.#self && this.#isDead(seen, nowMs)).map(([id]) => id);
  }

  /** How many workers share the shards, ourselves among them. */
  living(nowMs: number): number {
    const others = [...this.#seen].filter(([id, seen]) => id !== this.#self && !this.#isDead(seen, nowMs));
    return others.length + 1;
  }
}

/** Shards a worker should hold at most, for an even split. */
export const fairShare = (shards: number, living: number): number => Math.ceil(shards / living);
