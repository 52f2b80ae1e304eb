/** Divides the shards between the workers, from their heartbeats: which ones a worker takes, and which it hands back. */
import { transaction, type Sql } from '#db/pool.ts';
import { isLockTimeout } from '#db/unavailable.ts';
import { type LeaseRow, takeShards, waitForLocks, type WorkerRow, type SeenWorker } from './leases-sql.ts';
import type { Log } from '#core/log.ts';

// Decides which workers are alive, and which shards to take or to hand back.

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

  /** Forgets since when the counters stand still. */
  forget(): void {
    this.#seen.clear();
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

/** Per shard, after taking all together has failed. If all 256 are locked that is 5 s. */
const ONE_LOCK_MS = 20;

/**
 * Takes shards and returns those that were taken. Skips shards whose rows are locked, so that one frozen lock owner does not block the
 * others, and runs as many transactions as it needs. `lockMs` limits how long a row lock is awaited.
 */
export async function takeUnlocked(
  sql: Sql,
  worker: number,
  request: { shards: number[]; dead: readonly WorkerRow[]; lockMs: number },
): Promise<Awaited<ReturnType<typeof takeShards>>[number][]> {
  const { shards, dead, lockMs } = request;
  const take = () =>
    transaction(sql, async (tx) => {
      await waitForLocks(tx, lockMs);
      return [...(await takeShards(tx, worker, shards, dead))];
    });
  try {
    return await take();
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
  }
  const taken = [];
  // Not `for update skip locked`, which distributed PostgreSQL rejects.
  if (shards.length > 1) {
    for (const shard of shards)
      taken.push(...(await takeUnlocked(sql, worker, { shards: [shard], dead, lockMs: ONE_LOCK_MS })));
  }
  return taken;
}

/**
 * Returns the number of shards per live worker. Numbers differ by at most one and add up to all shards: with
 * `ceil(shards / workers)` for each, 14 of 100 workers would have none.
 */
export function sharesOf(live: readonly number[], shards: number): Map<number, number> {
  const least = Math.floor(shards / live.length);
  const more = shards % live.length;
  const ranked = live.toSorted((a, b) => a - b);
  return new Map(ranked.map((id, rank) => [id, least + (rank < more ? 1 : 0)]));
}

/**
 * Returns which free or orphaned shards to take and which to hand back for an even split. Workers that see the same
 * list take different shards: when all took the first free one, one worker got it and the others waited a heartbeat for
 * the next. A worker with another list may lose a shard to a competitor and tries again.
 */
export function planShards(
  leases: readonly LeaseRow[],
  workers: { self: number; live: readonly number[]; dead: ReadonlySet<number> },
  /** Shards whose hand-back is in progress. */
  handingBack: ReadonlySet<number>,
): { take: number[]; handBack: number[] } {
  const { self, live, dead } = workers;
  const byOwner = Map.groupBy(leases, ({ owner }) => owner);
  const free = leases
    .filter(({ owner }) => owner === null || dead.has(owner))
    .map(({ shard }) => shard)
    .toSorted((a, b) => a - b);
  const shares = sharesOf(live, leases.length);
  const missing = (id: number) => Math.max(0, (shares.get(id) ?? 0) - (byOwner.get(id)?.length ?? 0));
  const others = [...shares.keys()].filter((id) => id < self);
  const first = others.reduce((sum, id) => sum + missing(id), 0);
  const kept = (byOwner.get(self) ?? []).map(({ shard }) => shard).filter((shard) => !handingBack.has(shard));
  return {
    take: free.slice(first, first + missing(self)).filter((shard) => !handingBack.has(shard)),
    handBack: kept.slice(shares.get(self)),
  };
}

// Hands shards back to the table, each when its deliveries are recorded.

/** The work of the owned shards, which follows their changes. */
export type ShardEvents = {
  /** Begins the work of taken shards. */
  gained: (shards: readonly number[]) => void;
  /** Ends all work of the shards at once. */
  lost: (shards: readonly number[]) => void;
  /** Reads webhooks and work again of shards that stay owned after a failed hand-back. */
  kept: (shards: readonly number[]) => void;
  /** Resolves with the first of the shards whose deliveries are all recorded, while the owner takes no new work for them. */
  drain: (shards: readonly number[]) => Promise<number[]>;
  /** Returns whether results of the shard are not recorded yet. */
  isRecording: (shard: number) => boolean;
};

type HandBackDeps = {
  log: Log;
  /** Gives the shards up and then updates the table. */
  release: (shards: number[]) => Promise<void>;
  /** Called when shards leave `inProgress`. */
  onFinished: () => void;
};

/** Hands shards back: takes no new work for them and releases each once all its work is recorded. */
export class HandBack {
  readonly #deps: HandBackDeps;
  /** The shards of which no new work is taken. */
  readonly inProgress = new Set<number>();

  constructor(deps: HandBackDeps) {
    this.#deps = deps;
  }

  /** Releases each shard as soon as it is empty, so that a slow receiver does not delay the other shards. */
  async start(shards: readonly number[], work: Pick<ShardEvents, 'drain' | 'kept'>): Promise<void> {
    const { log, release } = this.#deps;
    let remaining = [...shards];
    for (const shard of shards) this.inProgress.add(shard);
    try {
      while (remaining.length > 0) {
        const empty = await work.drain(remaining);
        await release(empty);
        this.#finish(empty);
        remaining = remaining.filter((shard) => this.inProgress.has(shard));
      }
    } catch (error) {
      log.warn({ err: error }, 'handing back shards failed');
      this.#finish(remaining);
      work.kept(remaining);
    }
  }

  /** Removes shards that were released or that stay owned. */
  #finish(shards: readonly number[]): void {
    for (const shard of shards) this.inProgress.delete(shard);
    this.#deps.onFinished();
  }
}
