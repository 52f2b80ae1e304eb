import type { LeaseRow, WorkerRow } from './leases-sql.ts';

/** One that has shards and no row: it was removed while a last statement of its took them. */
const NO_BEAT = 0;

/**
 * Who is alive, judged by nothing but how long a worker's counter stood still on our own monotonic clock: neither the
 * database's clock nor anybody's wall clock is trusted.
 */
export class OtherWorkers {
  readonly #self: number;
  readonly #leaseMs: number;
  readonly #seen = new Map<number, { beat: number; sinceMs: number }>();
  /** When the list that was read last was asked for. */
  #requestedAtMs = 0;

  constructor(self: number, leaseMs: number) {
    this.#self = self;
    this.#leaseMs = leaseMs;
  }

  /**
   * A counter stood still from when its value had been read first to when it was asked for last: if we were frozen before
   * we read an answer, the answer is old, and says nothing about how long.
   */
  observe(
    workers: readonly WorkerRow[],
    leases: readonly LeaseRow[],
    read: { requestedAtMs: number; nowMs: number },
  ): void {
    const beats = new Map<number, number>();
    for (const { owner } of leases) if (owner !== null) beats.set(owner, NO_BEAT);
    for (const { id, beat } of workers) beats.set(id, beat);
    for (const id of this.#seen.keys()) if (!beats.has(id)) this.#seen.delete(id);
    for (const [id, beat] of beats) {
      if (this.#seen.get(id)?.beat !== beat) this.#seen.set(id, { beat, sinceMs: read.nowMs });
    }
    this.#requestedAtMs = read.requestedAtMs;
  }

  #isDead({ sinceMs }: { sinceMs: number }): boolean {
    return this.#requestedAtMs - sinceMs > this.#leaseMs;
  }

  /** Those whose counter stood still for a lease, with what it was. */
  dead(): WorkerRow[] {
    return [...this.#seen]
      .filter(([id, seen]) => id !== this.#self && this.#isDead(seen))
      .map(([id, { beat }]) => ({ id, beat }));
  }

  /** Who shares the shards, ourselves among them. */
  live(): number[] {
    const others = [...this.#seen].filter(([id, seen]) => id !== this.#self && !this.#isDead(seen));
    return [...others.map(([id]) => id), this.#self];
  }
}
