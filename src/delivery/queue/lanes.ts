/**
 * The lanes of the owned shards, and which webhooks get one. A lane takes about 1.6 KB plus its queued deliveries; lanes without work are
 * removed, but the latency statistics of their endpoints are kept.
 */
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import { Lane, type LaneLimits } from './lane.ts';
import { MemoryLimit, type EventRetainer } from './loaded-deliveries.ts';
import type { LatencyStats } from './lane-limits.ts';

export type LanesLimits = LaneLimits & {
  /** For how many endpoints without work latency statistics are kept. */
  endpointsKept: number;
  /** Deliveries in memory. Above it each lane loads only a few. */
  heldDeliveries: number;
  /** Lanes in memory. Above it, webhooks found in the table wait there. */
  heldLanes: number;
};

/**
 * The placement of a webhook found in the table: a lane; none because all places are taken; none because its lane was
 * evicted.
 */
type Placement = 'lane' | 'full' | 'deferred';

/** Share of the lanes in memory that previously evicted webhooks may use. */
const READMITTED_SHARE = 0.1;
/**
 * Share of the places reserved for webhooks whose last attempt succeeded. Without it, 10,000 endpoints that hang kept
 * the others waiting for several rounds.
 */
const SUCCEEDED_SHARE = 0.25;
/** Additional places for pending disables, which take only a moment and must not wait for endpoints that hang. */
const PENDING_DISABLE_SHARE = 0.1;

export class Lanes {
  readonly #limits: LanesLimits;
  readonly #shards = new Map<number, Map<number, Lane>>();
  /**
   * The statistics of removed lanes. Without them an endpoint that hangs once a minute would be new each time instead
   * of slow.
   */
  readonly #latencies: LRUCache<number, LatencyStats>;
  readonly #memoryLimit: MemoryLimit;
  /** Webhooks whose lanes were evicted, limited to `endpointsKept`; the latest last. */
  readonly #evicted = new Set<number>();
  #count = 0;

  /** `events` retains the events of the loaded deliveries. */
  constructor(limits: LanesLimits, events?: EventRetainer) {
    this.#limits = limits;
    this.#latencies = new LRUCache(entriesUpTo(limits.endpointsKept));
    this.#memoryLimit = new MemoryLimit(limits.heldDeliveries, events);
  }

  /** Deliveries in memory, in all lanes. */
  get loadedDeliveries(): number {
    return this.#memoryLimit.loaded;
  }

  /** Number of lanes, with or without work. */
  get count(): number {
    return this.#count;
  }

  /**
   * Returns whether a webhook found in the table has or gets a lane. An offered delivery always gets one.
   * `hasSucceeded`: its last attempt succeeded.
   */
  placementOf(shard: number, webhookId: number, hasSucceeded: boolean): Placement {
    if (this.find(shard, webhookId) !== undefined) return 'lane';
    const { heldLanes } = this.#limits;
    if (this.#count >= (hasSucceeded ? heldLanes : heldLanes * (1 - SUCCEEDED_SHARE))) return 'full';
    return this.#evicted.has(webhookId) && this.#count >= heldLanes * READMITTED_SHARE ? 'deferred' : 'lane';
  }

  /** Returns whether a webhook with a pending disable has or gets a lane. */
  hasCapacityToDisable(shard: number, webhookId: number): boolean {
    return (
      this.find(shard, webhookId) !== undefined || this.#count < this.#limits.heldLanes * (1 + PENDING_DISABLE_SHARE)
    );
  }

  /** At most half of the places are taken, so webhooks without a place are worth another scan. */
  get isHalfEmpty(): boolean {
    return this.#count * 2 <= this.#limits.heldLanes;
  }

  /** Returns the lane of a webhook and creates it on first use. */
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

  /** Returns whether deliveries of the webhook may wait for an earlier one of their resource. */
  isOrdered(shard: number, webhookId: number): boolean {
    return this.find(shard, webhookId)?.deliveries.isOrdered === true;
  }

  *ofShards(shards: readonly number[]): Generator<Lane> {
    for (const shard of shards) yield* this.#shards.get(shard)?.values() ?? [];
  }

  all(): Generator<Lane> {
    return this.ofShards([...this.#shards.keys()]);
  }

  /** Closes and removes the lanes of a shard that is no longer owned. */
  close(shard: number): void {
    const lanes = this.#shards.get(shard);
    this.#count -= lanes?.size ?? 0;
    for (const lane of lanes?.values() ?? []) lane.close();
    this.#shards.delete(shard);
  }

  /** Removes lanes without work. Their state is read again when there is work. */
  sweep(): void {
    for (const lane of this.all()) {
      if (lane.isEmpty && lane.place === 'outside') this.#forget(lane);
    }
  }

  /**
   * Evicts lanes that were idle since the last call, if other webhooks need a place or there are too many lanes.
   * Returns how many. Evicted lanes are closed, so other queues that still contain them skip them.
   */
  evictIdle(monotonicMs: number, isPlaceNeeded: boolean): number {
    const before = this.#count;
    const mustEvict = isPlaceNeeded || before > this.#limits.heldLanes;
    for (const lane of this.all()) {
      if (!lane.wasIdle() || !mustEvict) continue;
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
    // A webhook with a lane is not evicted any more.
    this.#evicted.delete(webhookId);
    const latency = this.#latencies.get(webhookId);
    return new Lane(shard, webhookId, this.#limits, { latency, memoryLimit: this.#memoryLimit });
  }
}

/** A recurring event that can be awaited. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  fire(): void {
    if (this.#waiting.size === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves at the next `fire`. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}

/** The lanes that need settings or rows from the table. Other parts add lanes and the fetcher takes them, so those need no fetcher. */
export class FetchRequests {
  /** Lanes that have deliveries to send and no settings, in order of request; they are served first. */
  readonly urgent = new Set<Lane>();
  readonly normal = new Set<Lane>();
  /** Fires when a lane was added. Requests of one tick share statements. */
  readonly added = new Signal();
  #isStopped = false;

  /** Requests settings or rows for the lane. */
  add(lane: Lane, isUrgent = lane.target === null && lane.deliveries.queued > 0): void {
    if (lane.isClosed || this.#isStopped) return;
    (isUrgent ? this.urgent : this.normal).add(lane);
    this.added.fire();
  }

  /** Discards the settings of a webhook that may have changed: nothing is sent to it until its row has been read again. */
  reload(lane: Lane): void {
    lane.discardSettings();
    this.add(lane);
  }

  stop(): void {
    this.#isStopped = true;
    this.urgent.clear();
    this.normal.clear();
  }
}
