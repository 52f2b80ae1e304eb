import type { LeaseRow, WorkerRow } from './leases-sql.ts';

/**
 * Counter of a worker that owns shards but has no row: its row was deleted while its last statement took the shards.
 */
const NO_BEAT = 0;

/**
 * Decides which workers are alive, only by how long their heartbeat counters stood still on this process's monotonic
 * clock: neither the database's clock nor any wall clock is trusted.
 */
export class OtherWorkers {
  readonly #self: number;
  readonly #leaseMs: number;
  readonly #seen = new Map<number, { beat: number; sinceMs: number }>();
  /** When the most recent list was requested. */
  #requestedAtMs = 0;

  constructor(self: number, leaseMs: number) {
    this.#self = self;
    this.#leaseMs = leaseMs;
  }

  /**
   * Records the counters of a list. A counter stood still from when its value was first received until the latest list
   * was requested: after a freeze of this process an answer may be old and proves nothing about the time since.
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

  /** Returns the workers whose counter stood still for a lease, with its value. */
  dead(): WorkerRow[] {
    return [...this.#seen]
      .filter(([id, seen]) => id !== this.#self && this.#isDead(seen))
      .map(([id, { beat }]) => ({ id, beat }));
  }

  /** Returns the workers that share the shards, this one included. */
  live(): number[] {
    const others = [...this.#seen].filter(([id, seen]) => id !== this.#self && !this.#isDead(seen));
    return [...others.map(([id]) => id), this.#self];
  }
}
