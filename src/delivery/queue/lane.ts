/** One webhook with work, in the memory of its shard's owner (docs/delivery-states.md has the diagram). Pure bookkeeping. */
import type { BlockedOn } from './run-queue.ts';
import type { Health } from '../policy/policy.ts';
import { LoadedDeliveries, type Pending } from './loaded-deliveries.ts';
import { StartConditions } from './start-conditions.ts';
import type { MemoryLimit } from './memory-limit.ts';
import type { Target } from './target.ts';
import { LatencyStats, type Speed } from './latency-stats.ts';

export type LaneLimits = { laneQueue: number; slotsPerLane: number; slotsPerSlowLane: number };

/** What the table tells a new owner: who failed last is not to be waited for, who answered need not prove himself again. */
const speedBy = (health: Health | null): Speed => {
  if (health === null) return 'new';
  if (health.consecutiveFailures > 0) return 'slow';
  return health.hasSucceeded ? 'fast' : 'new';
};

export class Lane {
  readonly shard: number;
  readonly webhookId: number;
  /** What it has of the table. */
  readonly deliveries: LoadedDeliveries;
  #inFlight = 0;
  /** It was made, or sent something, since `hasRested` was asked last. */
  #wasActive = true;
  /** How fast its endpoint is, and how many exchanges at once that makes. */
  readonly latency: LatencyStats;
  /** The settings to send by; null until loaded, and after the webhook changed. */
  target: Target | null = null;
  /** Counts the changes of the webhook we were told of, so that a load that began before one is not believed. */
  changes = 0;
  /** Counted here alone while the shard is ours, epoch by epoch: the table's row is behind by what is not recorded. */
  health: (Health & { epoch: number }) | null = null;
  /** Whether it is paused, probed or paced. */
  readonly startConditions = new StartConditions();
  /** The epoch in which an outcome demanded the switch-off: nothing more is sent in it. */
  pendingDisableEpoch: number | null = null;
  /** Stands in the ring of ready lanes, since `ticket`, or is parked until its store or its origin has room. */
  isQueued = false;
  sequence = 0;
  blockedOn: BlockedOn | null = null;
  /** What it had first died with a switch-off, though it is on again. */
  #isEndingOldEpochs = false;
  /** Due from when on there is much that is dead; null where that is not known, `refused` where it has to end one by one. */
  oldEpochsFrom: Date | 'one-by-one' | null = null;
  /** The shard was lost: nothing more may start here. */
  isClosed = false;

  /** With what is known of its endpoint, and the room that it shares with all other lanes. */
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
    this.deliveries = new LoadedDeliveries(limits.laneQueue, memoryLimit);
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

  /** What is sent next. */
  get first(): Pending | undefined {
    return this.deliveries.first;
  }

  /** The webhook's row changed: nothing is sent before it was read again. */
  forgetTarget(): void {
    this.changes += 1;
    this.target = null;
  }

  /** There is something to send, and nothing is known of where to; or it is to be switched off, by whoever reads that. */
  get needsTarget(): boolean {
    return this.target === null && (this.deliveries.hasWork || this.pendingDisableEpoch !== null);
  }

  get needsFetch(): boolean {
    if (!this.deliveries.needsFetch) return false;
    // What is dead ends batch by batch: a large backlog must not crowd out what is sent.
    return (this.target?.isActive !== false && !this.#isEndingOldEpochs) || this.deliveries.isFullyRecorded;
  }

  /**
   * What it holds that died with a switch-off, no longer queued. Of a webhook that is on again it is looked for where it comes
   * first: as turns a million of them would take a million of the webhook's slots, and of what its pace allows.
   */
  takeOldEpochs(): Pending[] {
    const { target, first } = this;
    if (target === null || (target.isActive && first === undefined)) return [];
    this.#isEndingOldEpochs = first !== undefined && first.epoch < target.epoch;
    return this.#isEndingOldEpochs || !target.isActive ? this.deliveries.takeOlderThan(target.epoch) : [];
  }

  /**
   * Whether it could have done something since this was asked last and did not, and nothing is lost with it: all it has and
   * is stands in the table.
   */
  wasIdle(): boolean {
    const isSupplied = !this.needsTarget && (this.deliveries.queued > 0 || !this.needsFetch);
    const wasIdle = !this.#wasActive && isSupplied && this.deliveries.isEvictable && this.pendingDisableEpoch === null;
    if (isSupplied) this.#wasActive = false;
    return wasIdle;
  }

  /** Its endpoint answers fast, and nothing holds it back. */
  isMakingProgress(monotonicMs: number): boolean {
    return this.speed === 'fast' && !this.startConditions.isBreakerOpen && !this.startConditions.isPaused(monotonicMs);
  }

  /** `monotonicMs` as the gate has it. */
  mayStart(monotonicMs: number): boolean {
    const { target } = this;
    if (this.isClosed || target?.isActive !== true || this.pendingDisableEpoch === target.epoch) return false;
    if (this.deliveries.queued === 0 || this.#inFlight >= this.latency.maxInFlight) return false;
    return this.startConditions.canStart(this.#inFlight, monotonicMs);
  }

  /** The next delivery, now in flight. */
  take(): Pending | undefined {
    const delivery = this.deliveries.take();
    if (delivery === undefined) return undefined;
    this.#inFlight += 1;
    this.#wasActive = true;
    this.startConditions.attemptStarted();
    return delivery;
  }

  /** A delivery that was taken and could not be sent after all: first in the queue again. */
  cancelAttempt(delivery: Pending): void {
    this.attemptEnded();
    this.requeue(delivery);
  }

  /** One that has landed without an outcome. */
  requeue(delivery: Pending): void {
    this.deliveries.requeue(delivery);
  }

  /** The exchange is over; the delivery stays known until its record is committed. */
  attemptEnded(): void {
    this.#inFlight -= 1;
    this.startConditions.attemptEnded();
  }
}
