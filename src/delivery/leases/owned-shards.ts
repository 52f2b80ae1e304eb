/** The shards that a worker owns, with their fencing tokens; notifies about additions and losses. */
import type { Log } from '#core/log.ts';
import type { LossCause, ShardMetrics, TakeCause } from '../metrics/shards.ts';

export type OwnedShardsDeps = {
  log: Log;
  metrics: ShardMetrics;
  onGained: (shards: number[]) => void;
  /** Called on a loss: exchanges of these shards have to be aborted and their queues discarded at once. */
  onLost: (shards: number[]) => void;
};

/**
 * Logged once for all shards of a loss: the only record of why the next owner, possibly this worker again, repeats
 * attempts.
 */
const LOSS_MESSAGES: Readonly<Partial<Record<LossCause, string>>> = {
  silent: 'lease expired: no heartbeat was confirmed in time; running attempts are aborted until one is',
  fenced: 'shards lost: another worker owns them; running attempts are aborted',
};

export type TakenShard = { shard: number; fence: number; crashCount: number };

export class OwnedShards {
  readonly #deps: OwnedShardsDeps;
  readonly #fences = new Map<number, number>();
  /** Tokens of shards whose lease lapsed, until their next owner is known. */
  readonly #lapsedFences = new Map<number, number>();
  #changes = 0;
  #lapses = 0;

  constructor(deps: OwnedShardsDeps) {
    this.#deps = deps;
  }

  /** Rises with every addition and loss. */
  get changes(): number {
    return this.#changes;
  }

  /** Rises whenever the lease lapses, even if no shard was owned. */
  get lapses(): number {
    return this.#lapses;
  }

  get shards(): number[] {
    return [...this.#fences.keys()];
  }

  /** Returns the fencing token to record under; undefined if the shard is not owned. */
  fenceOf(shard: number): number | undefined {
    return this.#fences.get(shard);
  }

  /**
   * Returns the token also after a lapse of the lease: until the shard is taken again, only the table can reject that
   * token.
   */
  lastFenceOf(shard: number): number | undefined {
    return this.#fences.get(shard) ?? this.#lapsedFences.get(shard);
  }

  add(shards: readonly TakenShard[], causeOf: (taken: TakenShard) => TakeCause): void {
    const { log, metrics, onGained } = this.#deps;
    this.#changes += 1;
    for (const { shard, fence } of shards) {
      this.#fences.set(shard, fence);
      this.#lapsedFences.delete(shard);
    }
    if (shards.length === 0) return;
    const counts = [...Map.groupBy(shards, causeOf)].map(([cause, { length }]) => [cause, length] as const);
    for (const [cause, count] of counts) metrics.taken(cause, count);
    log.info({ ...Object.fromEntries(counts), owned: this.#fences.size }, 'took shards');
    onGained(shards.map(({ shard }) => shard));
  }

  remove(shards: readonly number[], cause: LossCause): void {
    for (const shard of shards) {
      const fence = this.#fences.get(shard);
      if (cause !== 'silent') this.#lapsedFences.delete(shard);
      else if (fence !== undefined) this.#lapsedFences.set(shard, fence);
    }
    const removed = shards.filter((shard) => this.#fences.delete(shard));
    this.#changes += removed.length;
    if (cause === 'silent') this.#lapses += 1;
    if (removed.length === 0) return;
    this.#deps.metrics.lost(cause, removed.length);
    const message = LOSS_MESSAGES[cause];
    if (message !== undefined) this.#deps.log.warn({ shards: removed.length }, message);
    this.#deps.onLost(removed);
  }

  /** Counts a change after a hand-back: a list read before it may be outdated. */
  noteChange(): void {
    this.#changes += 1;
  }
}
