/**
 * Counts, per owned shard, how many consecutive owners crashed. An owner that survives for an hour resets the count.
 */
import type { Queryable } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { resetCrashCounts } from './leases-sql.ts';

/**
 * A delivery that crashes workers is pending and due, so it does so within seconds of a take-over, far less than an
 * hour.
 */
const STABLE_AFTER_MS = 3_600_000;

export class CrashCounts {
  readonly #worker: number;
  readonly #clock: Clock;
  readonly #byShard = new Map<number, { crashCount: number; sinceMs: number }>();

  constructor(worker: number, clock: Clock) {
    this.#worker = worker;
    this.#clock = clock;
  }

  /** Starts to track shards that were taken. */
  add(shards: readonly { shard: number; crashCount: number }[]): void {
    const sinceMs = this.#clock.monotonicMs();
    for (const { shard, crashCount } of shards) this.#byShard.set(shard, { crashCount, sinceMs });
  }

  of(shard: number): number {
    return this.#byShard.get(shard)?.crashCount ?? 0;
  }

  /** Resets the crash count of shards that this worker has owned for an hour. */
  async resetStable(run: (query: (sql: Queryable) => Promise<void>) => Promise<void>): Promise<void> {
    const beforeMs = this.#clock.monotonicMs() - STABLE_AFTER_MS;
    const stable = [...this.#byShard].filter(([, { crashCount, sinceMs }]) => crashCount > 0 && sinceMs < beforeMs);
    if (stable.length === 0) return;
    await run((sql) =>
      resetCrashCounts(
        sql,
        this.#worker,
        stable.map(([shard]) => shard),
      ),
    );
    for (const [, entry] of stable) entry.crashCount = 0;
  }
}
