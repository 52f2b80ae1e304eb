/** The shards that a worker has, each under its fence; whoever has to hear of what comes and goes is told. */
import type { Log } from '#core/log.ts';
import type { LossCause, ShardMetrics, TakeCause } from '../metrics/shards.ts';

export type OwnedShardsDeps = {
  log: Log;
  metrics: ShardMetrics;
  onGained: (shards: number[]) => void;
  /** Stop at once: abort what is in flight and forget what is queued. */
  onLost: (shards: number[]) => void;
};

/** Said once for all of them, and the only trace of why the next owner, who may be ourselves, sends something again. */
const LOSS_MESSAGES: Readonly<Partial<Record<LossCause, string>>> = {
  silent: 'no heartbeat was confirmed in time: what is in flight is given up, and nothing sent before one is',
  fenced: 'another worker has what was ours: what is in flight is given up',
};

export type TakenShard = { shard: number; fence: number; crashCount: number };

export class OwnedShards {
  readonly #deps: OwnedShardsDeps;
  readonly #fences = new Map<number, number>();
  /** Of shards that were given up for silence, until it is known who has them. */
  readonly #lapsedFences = new Map<number, number>();
  #changes = 0;
  #lapses = 0;

  constructor(deps: OwnedShardsDeps) {
    this.#deps = deps;
  }

  /** Rises with everything that is gained or lost. */
  get changes(): number {
    return this.#changes;
  }

  /** Rises whenever all that is held has to be given up because we were silent, also if that is nothing. */
  get lapses(): number {
    return this.#lapses;
  }

  get shards(): number[] {
    return [...this.#fences.keys()];
  }

  /** The fence to record under; undefined where the shard is not held. */
  fenceOf(shard: number): number | undefined {
    return this.#fences.get(shard);
  }

  /** The same, also where the shard was given up for silence: until it is taken again, only the table can refuse that fence. */
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

  /** Something that was under way is settled: a list that was read before it may not show it. */
  noteChange(): void {
    this.#changes += 1;
  }
}
