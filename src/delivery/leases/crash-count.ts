/** How many owners in a row died holding a shard that is ours now; whoever lives with it has broken the row. */
import type { Queryable } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { forgiveShards } from './leases-sql.ts';

/** What kills does so within seconds of a take-over: it is pending and due. An hour is long past that. */
const LIVED_WITH_MS = 3_600_000;

export class Deaths {
  readonly #worker: number;
  readonly #clock: Clock;
  readonly #held = new Map<number, { deaths: number; sinceMs: number }>();

  constructor(worker: number, clock: Clock) {
    this.#worker = worker;
    this.#clock = clock;
  }

  /** The shards are ours from now on. */
  gained(shards: readonly { shard: number; deaths: number }[]): void {
    const sinceMs = this.#clock.monotonicMs();
    for (const { shard, deaths } of shards) this.#held.set(shard, { deaths, sinceMs });
  }

  of(shard: number): number {
    return this.#held.get(shard)?.deaths ?? 0;
  }

  /** Forgets the deaths of the shards that we have lived with for an hour. */
  async forgive(ask: (question: (sql: Queryable) => Promise<void>) => Promise<void>): Promise<void> {
    const beforeMs = this.#clock.monotonicMs() - LIVED_WITH_MS;
    const outlived = [...this.#held].filter(([, { deaths, sinceMs }]) => deaths > 0 && sinceMs < beforeMs);
    if (outlived.length === 0) return;
    await ask((sql) =>
      forgiveShards(
        sql,
        this.#worker,
        outlived.map(([shard]) => shard),
      ),
    );
    for (const [, held] of outlived) held.deaths = 0;
  }
}
