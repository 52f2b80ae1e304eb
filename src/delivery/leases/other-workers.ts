import type { LeaseRow, SeenWorker, WorkerRow } from './leases-sql.ts';

/**
 * Counter of a worker that owns shards but has no row: its row was deleted while its last statement took the shards.
 */
const NO_BEAT = 0;

const GRACE_MAX_MS = 500;

/** `disconnectedSinceMs`: since when the session of this counter has been missing. */
type Seen = { beat: number; sinceMs: number; disconnectedSinceMs: number | undefined };

/**
 * Decides which workers are alive, by how long their heartbeat counters stood still, or their sessions were missing, on this
 * process's monotonic clock: neither the database's clock nor any wall clock is trusted.
 *
 * A killed process ends its session at once, and a process that lost only its connection beats with a new session at once: a session
 * that is missing for `graceMs` belongs to a dead worker. A process that is frozen or cut off keeps its session, and its
 * lease counts. A restart of PostgreSQL ends all sessions, so a process that has lost its own does not check sessions for a
 * lease.
 */
export class OtherWorkers {
  readonly #self: number;
  readonly #leaseMs: number;
  readonly #seen = new Map<number, Seen>();
  /** When the most recent list was requested. */
  #requestedAtMs = 0;
  #checksSessionsFromMs = Number.NEGATIVE_INFINITY;

  constructor(self: number, leaseMs: number) {
    this.#self = self;
    this.#leaseMs = leaseMs;
  }

  /** How long a session has to be missing: enough to open another one. */
  get graceMs(): number {
    return Math.min(GRACE_MAX_MS, this.#leaseMs / 10);
  }

  /** Called when this process has lost its own session. */
  ownSessionEnded(nowMs: number): void {
    this.#checksSessionsFromMs = nowMs + this.#leaseMs;
  }

  /** Returns whether the session of a worker is missing that may still be alive. */
  hasDisconnected(): boolean {
    return [...this.#seen.values()].some((seen) => seen.disconnectedSinceMs !== undefined && !this.#isDead(seen));
  }

  /**
   * Records the counters of a list. A counter stood still from when its value was first received until the latest list
   * was requested: after a freeze of this process an answer may be old and proves nothing about the time since.
   */
  observe(
    workers: readonly SeenWorker[],
    leases: readonly LeaseRow[],
    read: { requestedAtMs: number; nowMs: number },
  ): void {
    const listed = new Map<number, Omit<SeenWorker, 'id'>>();
    for (const { owner } of leases) if (owner !== null) listed.set(owner, { beat: NO_BEAT, isDisconnected: false });
    for (const { id, ...worker } of workers) listed.set(id, worker);
    for (const id of this.#seen.keys()) if (!listed.has(id)) this.#seen.delete(id);
    for (const [id, { beat, isDisconnected }] of listed) {
      const before = this.#seen.get(id);
      const seen = before?.beat === beat ? before : { beat, sinceMs: read.nowMs, disconnectedSinceMs: undefined };
      const isMissing = isDisconnected && read.requestedAtMs >= this.#checksSessionsFromMs;
      this.#seen.set(id, {
        ...seen,
        disconnectedSinceMs: isMissing ? (seen.disconnectedSinceMs ?? read.nowMs) : undefined,
      });
    }
    this.#requestedAtMs = read.requestedAtMs;
  }

  #isDead({ sinceMs, disconnectedSinceMs = Number.POSITIVE_INFINITY }: Seen): boolean {
    return this.#requestedAtMs - sinceMs > this.#leaseMs || this.#requestedAtMs - disconnectedSinceMs > this.graceMs;
  }

  /** Returns the dead workers, with the values of their counters. */
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
