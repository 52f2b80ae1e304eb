/**
 * A lane: the in-memory queue of one webhook that has work, in the process that owns its shard (docs/delivery-states.md
 * has the diagram). Does no I/O.
 */
import { INTERNAL_FAULTS_MAX, type Health } from '../policy/policy.ts';
import type { Pending } from '../policy/entry.ts';
import { UNUSABLE, type Target } from '../attempt/delivery-target.ts';
import type { BlockedOn } from './run-queue.ts';
import { LoadedDeliveries, type MemoryLimit } from './loaded-deliveries.ts';
import { StartConditions, LatencyStats, type Speed } from './lane-limits.ts';

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

  /** Ends an attempt that was not sent and puts its delivery back in front. */
  cancelAttempt(delivery: Pending): void {
    this.attemptEnded();
    this.requeue(delivery);
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
