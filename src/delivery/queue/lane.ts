/**
 * A lane: the in-memory queue of one webhook that has work, in the process that owns its shard. Does no I/O.
 *
 * The state (`LaneState`) is not stored: it follows from four parts, each of which only the named methods change.
 *
 * ```
 *   settings   unread ──applySettings──► a target (active · inactive · UNUSABLE) ──discardSettings──► discarded
 *              unread ──discardSettings──► discarded ──applySettings──► a target
 *   health     null ──applySettings──► of the target's epoch ──applyOutcome──► of the same epoch
 *              of an older epoch ──applySettings──► of the target's epoch
 *   attempts   ──take──► in flight ──attemptEnded──► the delivery is recorded, put back in front, or waits in the quarantine
 *   isClosed   ──close──► for ever: the shard was lost, or the lane evicted. Only unrecorded outcomes are lost with it
 * ```
 *
 * A fifth part, the place in the run queue, belongs to run-queue.ts, and the states of a delivery are in loaded-deliveries.ts.
 */
import { INTERNAL_FAULTS_MAX, NO_BACKOFF, UNKNOWN, type Backoff, type Health } from '../policy/policy.ts';
import type { Pending } from '../policy/entry.ts';
import { UNUSABLE, type Target } from '../attempt/delivery-target.ts';
import type { Place } from './run-queue.ts';
import { LoadedDeliveries, type MemoryLimit } from './loaded-deliveries.ts';
import { LatencyStats, StartConditions, type Speed } from './lane-limits.ts';

export const BLOCKERS = ['endpoint', 'us'] as const;
export type Blocker = (typeof BLOCKERS)[number];

/** The states that operators see (docs/delivery-states.md). The others last for moments: their lanes count by what they do. */
export const SHOWN_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive', 'unusable'] as const;
export type ShownState = (typeof SHOWN_STATES)[number];

/**
 * The first of these states that applies is the state of a lane. `starts`: whether an attempt may start. `blocker`: what delays its
 * queued deliveries; null if that is the concurrency limit, the rate limit, or a slot.
 */
const STATES = {
  closed: { starts: false, blocker: 'us' },
  /** Waits for the fetcher, which reads the row of `webhook` if there are deliveries, or if the settings were discarded. */
  unread: { starts: false, blocker: 'us' },
  /** Waits until the row can be used: it is read every 30 s. Each hour of that raises `delivery.faults`, up to the end of a delivery. */
  unusable: { starts: false, blocker: 'us' },
  /** Not `webhook.is_active`, deleted, or without url. Its deliveries of older epochs end. Waits for a notification, or 30 s. */
  inactive: { starts: false, blocker: 'us' },
  /** `webhook_state.is_condemned`, or soon. Waits for the transaction that disables the webhook; a success cancels it. */
  disabling: { starts: false, blocker: 'endpoint' },
  /** Until `webhook_state.paused_until`, which the endpoint asked for, or a requested retry. */
  paused: { starts: false, blocker: 'endpoint' },
  /** The circuit breaker is open: one attempt at a time, from `webhook_state.probe_at` on. A success closes it. */
  probing: { starts: true, blocker: 'endpoint' },
  sending: { starts: true, blocker: null },
  /** Has deliveries. Waits for its turn in the run queue, a slot, and the quotas of store and origin. */
  ready: { starts: true, blocker: null },
  /** Waits for a new delivery, the next `delivery.due_at`, or a poll; removed from memory if none is near. */
  idle: { starts: true, blocker: null },
} as const satisfies Record<string, { starts: boolean; blocker: Blocker | null }>;

type LaneState = keyof typeof STATES;

/**
 * Returns what a lane with queued deliveries waits for: its endpoint (pause, breaker, rate limit, concurrency limit,
 * pending disable) or this process (a slot, its settings, the lease).
 */
export function blockerOf(lane: Lane, monotonicMs: number): Blocker {
  const state = lane.stateAt(monotonicMs);
  const { blocker } = STATES[state === 'unread' ? lane.paceAt(monotonicMs) : state];
  if (blocker !== null) return blocker;
  const isFull = lane.inFlight >= lane.latency.maxInFlight;
  return isFull || lane.startConditions.isRateLimited(monotonicMs) ? 'endpoint' : 'us';
}

/** Returns the state that operators see. What blocks a lane takes precedence over its attempts in flight: a paused lane finishes them. */
export function shownStateOf(lane: Lane, monotonicMs: number): ShownState {
  const state = lane.stateAt(monotonicMs);
  return state === 'closed' || state === 'unread' || state === 'disabling' ? lane.paceAt(monotonicMs) : state;
}

export type LaneLimits = { laneQueue: number; slotsPerLane: number; slotsPerSlowLane: number };

/** The row of `webhook_state`: health, backoff, and whether an outcome required that the webhook is disabled. */
export type WebhookState = { health: Health; backoff: Backoff; isPendingDisable: boolean };

const NO_STATE: WebhookState = { health: UNKNOWN, backoff: NO_BACKOFF, isPendingDisable: false };

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
  /** `unread`: read if there are deliveries. `discarded`: read in any case, and the lane stays in memory until then. */
  #settings: Target | 'unread' | 'discarded' = 'unread';
  #changes = 0;
  #health: (Health & { epoch: number; isPendingDisable: boolean }) | null = null;
  /** Pause, circuit breaker and rate limit. */
  readonly startConditions = new StartConditions();
  /** Where the lane is in the run queue, since `sequence`. */
  place: Place = 'outside';
  sequence = 0;
  /** The webhook is enabled, but its first loaded delivery is of an older epoch. */
  #isEndingOldEpochs = false;
  /**
   * Due time from which a backlog of older epochs is ended in the database; null if there is none, `one-by-one` if the
   * batch statement failed.
   */
  oldEpochsFrom: Date | 'one-by-one' | null = null;
  #isClosed = false;

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
    this.#isClosed = true;
    this.deliveries.release();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The settings of the webhook; null until they are loaded, and after they were discarded. */
  get target(): Target | null {
    return typeof this.#settings === 'string' ? null : this.#settings;
  }

  /** Counts notified changes of the webhook, so that settings read before a change are not applied. */
  get changes(): number {
    return this.#changes;
  }

  /** The health in its epoch. While this worker owns the shard it is ahead of the table by unrecorded outcomes. */
  get health(): (Health & { epoch: number }) | null {
    return this.#health;
  }

  /** An outcome required that the webhook is disabled, in the present epoch. */
  get isPendingDisable(): boolean {
    return this.#health?.isPendingDisable === true;
  }

  /** Returns the state at a time of the clock of `startConditions`. */
  stateAt(monotonicMs: number): LaneState {
    const { target } = this;
    if (this.#isClosed) return 'closed';
    if (target === null) return 'unread';
    if (target === UNUSABLE) return 'unusable';
    if (!target.isActive) return 'inactive';
    return this.isPendingDisable ? 'disabling' : this.paceAt(monotonicMs);
  }

  /** Returns what delays the attempts of an active webhook; without that, what the lane does. */
  paceAt(monotonicMs: number): 'paused' | 'probing' | 'sending' | 'ready' | 'idle' {
    if (this.startConditions.isPaused(monotonicMs)) return 'paused';
    if (this.startConditions.isBreakerOpen) return 'probing';
    if (this.#inFlight > 0) return 'sending';
    return this.deliveries.queued > 0 ? 'ready' : 'idle';
  }

  /** Returns whether an attempt may start now. */
  mayStart(monotonicMs: number): boolean {
    if (this.deliveries.queued === 0 || this.#inFlight >= this.latency.maxInFlight) return false;
    return STATES[this.stateAt(monotonicMs)].starts && this.startConditions.canStart(this.#inFlight, monotonicMs);
  }

  /** Discards the settings after a change. Nothing is sent until they are loaded again. */
  discardSettings(): void {
    this.#changes += 1;
    this.#settings = 'discarded';
  }

  /**
   * Takes the settings that were read, and the stored state of the webhook; for an epoch that this worker already counts, its own state
   * is newer. An unusable row says nothing about the epoch.
   */
  applySettings(target: Target, stored = NO_STATE): void {
    this.#settings = target;
    this.deliveries.setOrdered(target.isActive && target.isOrdered);
    // Deliveries of an inactive webhook are ended, also those that are not due yet.
    if (!target.isActive) this.deliveries.markIncomplete();
    if (target !== UNUSABLE && this.#health?.epoch !== target.epoch) this.#setState(target.epoch, stored);
  }

  /** Takes the state of the webhook after an attempt in this epoch. Ignores the result of an attempt from an older epoch. */
  applyOutcome(epoch: number, state: WebhookState): void {
    if (this.#health !== null && this.#health.epoch > epoch) return;
    this.#setState(epoch, state);
  }

  #setState(epoch: number, { health, backoff, isPendingDisable }: WebhookState): void {
    this.#health = { ...health, epoch, isPendingDisable };
    this.startConditions.backoff = backoff;
  }

  get speed(): Speed {
    return this.latency.speed(speedBy(this.#health));
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** The delivery that is sent next. */
  get first(): Pending | undefined {
    return this.deliveries.first;
  }

  /**
   * Returns whether there is nothing to do for the webhook: no delivery, no settings to read, and no pending disable. An unusable row is
   * read again every 30 s, and logged once for as long as its lane stays.
   */
  get isEmpty(): boolean {
    const isRead = this.#settings !== 'discarded' && this.#settings !== UNUSABLE;
    return this.deliveries.isEmpty && isRead && !this.isPendingDisable;
  }

  /** Returns whether settings must be loaded. */
  get needsTarget(): boolean {
    return this.#settings === 'discarded' || (this.#settings === 'unread' && this.deliveries.hasWork);
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
    const wasIdle = !this.#wasActive && isSupplied && this.deliveries.isEvictable && !this.isPendingDisable;
    if (isSupplied) this.#wasActive = false;
    return wasIdle;
  }

  /** Returns whether the endpoint is fast and neither paused nor probed. */
  isMakingProgress(monotonicMs: number): boolean {
    return this.speed === 'fast' && !this.startConditions.isBreakerOpen && !this.startConditions.isPaused(monotonicMs);
  }

  /** Removes and returns the next delivery, which is in flight from now on. */
  take(): Pending | undefined {
    const delivery = this.deliveries.take();
    if (delivery === undefined) return undefined;
    this.#inFlight += 1;
    this.#wasActive = true;
    return delivery;
  }

  /** Ends an attempt. The delivery stays known until its record is committed, or until it is put back. */
  attemptEnded(): void {
    if (this.#inFlight === 0) throw new Error(`An attempt of webhook ${this.webhookId} ended twice`);
    this.#inFlight -= 1;
  }
}
