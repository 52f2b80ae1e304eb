/**
 * The lanes of the shards we own. A lane costs some 1.6 KB beside what it has queued; those without work are forgotten, but for how
 * fast their endpoints were.
 */
import { LRUCache } from 'lru-cache';
import { Lane, type LaneLimits } from './lane.ts';
import { MemoryLimit, type EventRetainer } from './memory-limit.ts';
import type { LatencyStats } from './latency-stats.ts';

export type LanesLimits = LaneLimits & {
  /** Of how many endpoints without work it is remembered how fast they were. */
  endpointsKept: number;
  /** Deliveries in memory; beyond it each lane holds only a few. */
  heldDeliveries: number;
  /** Lanes in memory; webhooks that are found in the table beyond that wait there for one. */
  heldLanes: number;
};

/** What a webhook that is found in the table gets: its lane; none now, because all are taken, or because it had its turn. */
export type Placement = 'lane' | 'full' | 'deferred';

/** What those have of the lanes, together, that had one and did nothing with it. */
const READMITTED_SHARE = 0.1;
/** What is left to those that answered last: 10,000 that hang, and were found first, kept the others waiting for some turns. */
const SUCCEEDED_SHARE = 0.25;
/** Places beyond all others, for those that are to be switched off: they are done at once, and must not wait for who hangs. */
const PENDING_DISABLE_SHARE = 0.1;

export class Lanes {
  readonly #limits: LanesLimits;
  readonly #shards = new Map<number, Map<number, Lane>>();
  /** Of lanes that were forgotten. Without it an endpoint that hangs once a minute would be unproven each time, not slow. */
  readonly #latencies: LRUCache<number, LatencyStats>;
  readonly #memoryLimit: MemoryLimit;
  /** Webhooks whose lanes were given up, so many as endpoints are kept; the latest last. */
  readonly #evicted = new Set<number>();
  #count = 0;

  /** `events`: who keeps the events of what they hold. */
  constructor(limits: LanesLimits, events?: EventRetainer) {
    this.#limits = limits;
    this.#latencies = new LRUCache({ max: limits.endpointsKept });
    this.#memoryLimit = new MemoryLimit(limits.heldDeliveries, events);
  }

  /** Deliveries in memory, in all lanes. */
  get loadedDeliveries(): number {
    return this.#memoryLimit.loaded;
  }

  /** How many there are, with work or without. */
  get count(): number {
    return this.#count;
  }

  /**
   * Whether a webhook that is found in the table has a lane, or gets one. What is handed over always does. `isProven`: it
   * answered last.
   */
  placementOf(shard: number, webhookId: number, hasSucceeded: boolean): Placement {
    if (this.find(shard, webhookId) !== undefined) return 'lane';
    const { heldLanes } = this.#limits;
    if (this.#count >= (hasSucceeded ? heldLanes : heldLanes * (1 - SUCCEEDED_SHARE))) return 'full';
    return this.#evicted.has(webhookId) && this.#count >= heldLanes * READMITTED_SHARE ? 'deferred' : 'lane';
  }

  /** Whether a webhook that is to be switched off has a lane, or may have one. */
  hasCapacityToDisable(shard: number, webhookId: number): boolean {
    return (
      this.find(shard, webhookId) !== undefined || this.#count < this.#limits.heldLanes * (1 + PENDING_DISABLE_SHARE)
    );
  }

  /** At most half of the places are taken: who found none is to be looked for again. */
  get isHalfEmpty(): boolean {
    return this.#count * 2 <= this.#limits.heldLanes;
  }

  /** The lane of a webhook, made on first use. */
  get(shard: number, webhookId: number): Lane {
    let lanes = this.#shards.get(shard);
    if (lanes === undefined) this.#shards.set(shard, (lanes = new Map()));
    let lane = lanes.get(webhookId);
    if (lane === undefined) lanes.set(webhookId, (lane = this.#make(shard, webhookId)));
    return lane;
  }

  find(shard: number, webhookId: number): Lane | undefined {
    return this.#shards.get(shard)?.get(webhookId);
  }

  *ofShards(shards: readonly number[]): Generator<Lane> {
    for (const shard of shards) yield* this.#shards.get(shard)?.values() ?? [];
  }

  all(): Generator<Lane> {
    return this.ofShards([...this.#shards.keys()]);
  }

  /** The shard is not ours any more: its lanes are closed and forgotten. */
  close(shard: number): void {
    const lanes = this.#shards.get(shard);
    this.#count -= lanes?.size ?? 0;
    for (const lane of lanes?.values() ?? []) lane.close();
    this.#shards.delete(shard);
  }

  /** Forgets lanes that have nothing to do; what they knew of their webhook is read again when there is work. */
  sweep(): void {
    for (const lane of this.all()) {
      if (lane.deliveries.isEmpty && !lane.isQueued && lane.pendingDisableEpoch === null) this.#forget(lane);
    }
  }

  /**
   * Gives up the lanes that did nothing since this was called last, if others want their place, or there are too many; answers
   * how many. They are closed: wherever they still stand they are passed over.
   */
  evictIdle(monotonicMs: number, isWanted: boolean): number {
    const before = this.#count;
    const isPressed = isWanted || before > this.#limits.heldLanes;
    for (const lane of this.all()) {
      if (!lane.wasIdle() || !isPressed) continue;
      const { isEmpty } = lane.deliveries;
      if (!isEmpty && lane.isMakingProgress(monotonicMs)) continue;
      if (!isEmpty) this.#evicted.add(lane.webhookId);
      lane.close();
      this.#forget(lane);
    }
    for (const webhookId of this.#evicted) {
      if (this.#evicted.size <= this.#limits.endpointsKept) break;
      this.#evicted.delete(webhookId);
    }
    return before - this.#count;
  }

  #forget({ shard, webhookId, latency }: Lane): void {
    if (this.#shards.get(shard)?.delete(webhookId) === true) this.#count -= 1;
    if (latency.hasData) this.#latencies.set(webhookId, latency);
  }

  #make(shard: number, webhookId: number): Lane {
    this.#count += 1;
    // What goes on is none of those who rested.
    this.#evicted.delete(webhookId);
    const latency = this.#latencies.get(webhookId);
    return new Lane(shard, webhookId, this.#limits, { latency, memoryLimit: this.#memoryLimit });
  }
}
