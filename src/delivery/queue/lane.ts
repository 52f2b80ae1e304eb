/**
 * A lane: the in-memory queue of one webhook that has work, in the process that owns its shard (docs/delivery-states.md
 * has the diagram). Does no I/O.
 */
import { INTERNAL_FAULTS_MAX, type Health } from '../policy/policy.ts';
import type { Pending } from '../policy/entry.ts';
import { UNUSABLE, type Target } from '../attempt/delivery-target.ts';
import type { BlockedOn } from './run-queue.ts';
import { LoadedDeliveries, MemoryLimit, type EventRetainer } from './loaded-deliveries.ts';
import { LatencyStats, StartConditions, type Speed } from './lane-limits.ts';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';

// Names the state of a lane and what it waits for, for metrics.

/** The states of docs/delivery-states.md. */
export const LANE_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive', 'unusable'] as const;
export type LaneState = (typeof LANE_STATES)[number];

export const BLOCKERS = ['endpoint', 'us'] as const;
export type Blocker = (typeof BLOCKERS)[number];

/**
 * Returns what a lane with queued deliveries waits for: its endpoint (pause, breaker, rate limit, concurrency limit,
 * pending disable) or this process (a slot, its settings, the lease).
 */
export function blockerOf(lane: Lane, monotonicMs: number): Blocker {
  const isPendingDisable = lane.pendingDisableEpoch !== null && lane.pendingDisableEpoch === lane.target?.epoch;
  const isFull = lane.inFlight >= lane.latency.maxInFlight;
  return isPendingDisable || isFull || lane.startConditions.isBlocked(monotonicMs) ? 'endpoint' : 'us';
}

/** Returns the state. What blocks a lane takes precedence over its attempts in flight: a paused lane finishes them. */
export function stateOf(lane: Lane, monotonicMs: number): LaneState {
  if (lane.target === UNUSABLE) return 'unusable';
  if (lane.target?.isActive === false) return 'inactive';
  if (lane.startConditions.isPaused(monotonicMs)) return 'paused';
  if (lane.startConditions.isBreakerOpen) return 'probing';
  if (lane.inFlight > 0) return 'sending';
  return lane.deliveries.queued > 0 ? 'ready' : 'idle';
}

export type LaneLimits = { laneQueue: number; slotsPerLane: number; slotsPerSlowLane: number };

/** Returns the initial speed class from stored health: last attempt failed → slow, succeeded → fast. */
function speedBy(health: Health | null): Speed {
  if (health === null) return 'new';
  if (health.consecutiveFailures > 0) return 'slow';
  return health.hasSucceeded ? 'fast' : 'new';
}

export class Lane {
  readonly shard: number;
  readonly webhookId: number;
  /** The part of its pending deliveries that is in memory. */
  readonly deliveries: LoadedDeliveries;
  #inFlight = 0;
  /** The lane was created or started an attempt since the last call of `wasIdle`. */
  #wasActive = true;
  /** The measured speed of its endpoint, and the concurrency that follows from it. */
  readonly latency: LatencyStats;
  /** The settings of the webhook; null until loaded and after the webhook changed. */
  target: Target | null = null;
  /** Counts notified changes of the webhook, so that settings read before a change are discarded. */
  changes = 0;
  /** The health in its epoch. While this worker owns the shard it is ahead of the table by unrecorded outcomes. */
  health: (Health & { epoch: number }) | null = null;
  /** Pause, circuit breaker and rate limit. */
  readonly startConditions = new StartConditions();
  /** The epoch in which an outcome required that the webhook is disabled. Nothing more is sent in it. */
  pendingDisableEpoch: number | null = null;
  /** The lane waits in the run queue, since `sequence`, or is blocked on a quota of its store or origin. */
  isQueued = false;
  sequence = 0;
  blockedOn: BlockedOn | null = null;
  /** The webhook is enabled, but its first loaded delivery is of an older epoch. */
  #isEndingOldEpochs = false;
  /**
   * Due time from which a backlog of older epochs is ended in the database; null if there is none, `one-by-one` if the
   * batch statement failed.
   */
  oldEpochsFrom: Date | 'one-by-one' | null = null;
  /** The shard was lost or the lane evicted: nothing may start any more. */
  isClosed = false;

  /** Takes the known latency of the endpoint and the memory limit that all lanes share. */
  constructor(
    shard: number,
    webhookId: number,
    limits: LaneLimits,
    {
      latency = new LatencyStats(limits),
      memoryLimit,
    }: { latency?: LatencyStats | undefined; memoryLimit?: MemoryLimit } = {},
  ) {
    this.shard = shard;
    this.webhookId = webhookId;
    this.deliveries = new LoadedDeliveries(limits.laneQueue, memoryLimit, () => this.speed === 'fast');
    this.latency = latency;
  }

  close(): void {
    this.isClosed = true;
    this.deliveries.release();
  }

  get speed(): Speed {
    return this.latency.speed(speedBy(this.health));
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** The delivery that is sent next. */
  get first(): Pending | undefined {
    return this.deliveries.first;
  }

  /** Discards the settings after a change. Nothing is sent until they are loaded again. */
  forgetTarget(): void {
    this.changes += 1;
    this.target = null;
  }

  /** Returns whether there is nothing to do for the webhook: no delivery, and no pending disable. */
  get isEmpty(): boolean {
    return this.deliveries.isEmpty && this.pendingDisableEpoch === null;
  }

  /** Returns whether settings must be loaded: there are deliveries to send, or a pending disable that reading them executes. */
  get needsTarget(): boolean {
    return this.target === null && (this.deliveries.hasWork || this.pendingDisableEpoch !== null);
  }

  get needsFetch(): boolean {
    if (!this.deliveries.needsFetch) return false;
    // Older epochs end batch by batch, so that a large backlog does not crowd out new deliveries.
    return (this.target?.isActive !== false && !this.#isEndingOldEpochs) || this.deliveries.isFullyRecorded;
  }

  /**
   * Removes and returns loaded deliveries of older epochs, for an enabled webhook only when one is first. They take no
   * slot and no rate limit: a million of them would use up a million turns of the webhook.
   */
  takeOldEpochs(): Pending[] {
    const { target, first } = this;
    if (target === null || (target.isActive && first === undefined)) return [];
    this.#isEndingOldEpochs = first !== undefined && first.epoch < target.epoch;
    if (target.isActive && !this.#isEndingOldEpochs) return [];
    return this.deliveries.takeMatching(({ epoch }) => epoch < target.epoch);
  }

  /** Removes and returns the queued deliveries that waited too long for an unusable webhook. */
  takeExpired(): Pending[] {
    return this.target === UNUSABLE ? this.deliveries.takeMatching(({ faults }) => faults >= INTERNAL_FAULTS_MAX) : [];
  }

  /**
   * Returns whether the lane could have started an attempt since the last call and did not, and can be evicted without
   * loss because the table has all of its state. Starts a new observation period.
   */
  wasIdle(): boolean {
    const isSupplied = !this.needsTarget && (this.deliveries.queued > 0 || !this.needsFetch);
    const wasIdle = !this.#wasActive && isSupplied && this.deliveries.isEvictable && this.pendingDisableEpoch === null;
    if (isSupplied) this.#wasActive = false;
    return wasIdle;
  }

  /** Returns whether the endpoint is fast and neither paused nor probed. */
  isMakingProgress(monotonicMs: number): boolean {
    return this.speed === 'fast' && !this.startConditions.isBreakerOpen && !this.startConditions.isPaused(monotonicMs);
  }

  /** Returns whether an attempt may start now. `monotonicMs` is on the clock of `startConditions`. */
  mayStart(monotonicMs: number): boolean {
    const { target } = this;
    if (this.isClosed || target?.isActive !== true || this.pendingDisableEpoch === target.epoch) return false;
    if (this.deliveries.queued === 0 || this.#inFlight >= this.latency.maxInFlight) return false;
    return this.startConditions.canStart(this.#inFlight, monotonicMs);
  }

  /** Removes and returns the next delivery, which is in flight from now on. */
  take(): Pending | undefined {
    const delivery = this.deliveries.take();
    if (delivery === undefined) return undefined;
    this.#inFlight += 1;
    this.#wasActive = true;
    this.startConditions.attemptStarted();
    return delivery;
  }

  /** Puts a delivery in front whose attempt already ended without an outcome. */
  requeue(delivery: Pending): void {
    this.deliveries.requeue(delivery);
  }

  /** Ends an attempt. The delivery stays known until its record is committed. */
  attemptEnded(): void {
    this.#inFlight -= 1;
    this.startConditions.attemptEnded();
  }
}

// The lanes of the owned shards. A lane takes about 1.6 KB plus its queued deliveries; lanes without work are removed,
// but the latency statistics of their endpoints are kept.

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
export type Placement = 'lane' | 'full' | 'deferred';

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
      if (lane.isEmpty && !lane.isQueued) this.#forget(lane);
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
