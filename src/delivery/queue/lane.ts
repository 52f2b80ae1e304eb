/** One webhook with work, in the memory of its shard's owner (docs/delivery-states.md has the diagram). Pure bookkeeping. */
import type { Waited } from './run-queue.ts';
import type { Health } from '../policy/policy.ts';
import { Holding, type Pending } from './loaded-deliveries.ts';
import { Gate } from './start-conditions.ts';
import type { Room } from './memory-limit.ts';
import type { Target } from './target.ts';
import { Tempo, type Speed } from './latency-stats.ts';

export type LaneLimits = { laneQueue: number; slotsPerLane: number; slotsPerSlowLane: number };

/** What the table tells a new owner: who failed last is not to be waited for, who answered need not prove himself again. */
const speedBy = (health: Health | null): Speed => {
  if (health === null) return 'unproven';
  if (health.consecutiveFailures > 0) return 'slow';
  return health.isProven ? 'proven' : 'unproven';
};

export class Lane {
  readonly shard: number;
  readonly webhookId: number;
  /** What it has of the table. */
  readonly holding: Holding;
  #inFlight = 0;
  /** It was made, or sent something, since `hasRested` was asked last. */
  #isStirred = true;
  /** How fast its endpoint is, and how many exchanges at once that makes. */
  readonly tempo: Tempo;
  /** The settings to send by; null until loaded, and after the webhook changed. */
  target: Target | null = null;
  /** Counts the changes of the webhook we were told of, so that a load that began before one is not believed. */
  changes = 0;
  /** Counted here alone while the shard is ours, epoch by epoch: the table's row is behind by what is not recorded. */
  health: (Health & { epoch: number }) | null = null;
  /** Whether it is paused, probed or paced. */
  readonly gate = new Gate();
  /** The epoch in which an outcome demanded the switch-off: nothing more is sent in it. */
  condemnedEpoch: number | null = null;
  /** Stands in the ring of ready lanes, since `ticket`, or is parked until its store or its origin has room. */
  isListed = false;
  ticket = 0;
  waited: Waited | null = null;
  /** What it had first died with a switch-off, though it is on again. */
  #isEnding = false;
  /** Due from when on there is much that is dead; null where that is not known, `refused` where it has to end one by one. */
  deadFrom: Date | 'refused' | null = null;
  /** The shard was lost: nothing more may start here. */
  isClosed = false;

  /** With what is known of its endpoint, and the room that it shares with all other lanes. */
  constructor(
    shard: number,
    webhookId: number,
    limits: LaneLimits,
    { tempo = new Tempo(limits), room }: { tempo?: Tempo | undefined; room?: Room } = {},
  ) {
    this.shard = shard;
    this.webhookId = webhookId;
    this.holding = new Holding(limits.laneQueue, room);
    this.tempo = tempo;
  }

  close(): void {
    this.isClosed = true;
    this.holding.drop();
  }

  get speed(): Speed {
    return this.tempo.speed(speedBy(this.health));
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** What is sent next. */
  get first(): Pending | undefined {
    return this.holding.first;
  }

  /** The webhook's row changed: nothing is sent before it was read again. */
  forgetTarget(): void {
    this.changes += 1;
    this.target = null;
  }

  /** There is something to send, and nothing is known of where to; or it is to be switched off, by whoever reads that. */
  get wantsTarget(): boolean {
    return this.target === null && (this.holding.hasWork || this.condemnedEpoch !== null);
  }

  get wantsFetch(): boolean {
    if (!this.holding.isHungry) return false;
    // What is dead ends batch by batch: a large backlog must not crowd out what is sent.
    return (this.target?.isActive !== false && !this.#isEnding) || this.holding.isSettled;
  }

  /**
   * What it holds that died with a switch-off, no longer queued. Of a webhook that is on again it is looked for where it comes
   * first: as turns a million of them would take a million of the webhook's slots, and of what its pace allows.
   */
  takeDead(): Pending[] {
    const { target, first } = this;
    if (target === null || (target.isActive && first === undefined)) return [];
    this.#isEnding = first !== undefined && first.epoch < target.epoch;
    return this.#isEnding || !target.isActive ? this.holding.takeOlderThan(target.epoch) : [];
  }

  /**
   * Whether it could have done something since this was asked last and did not, and nothing is lost with it: all it has and
   * is stands in the table.
   */
  hasRested(): boolean {
    const isSupplied = !this.wantsTarget && (this.holding.queued > 0 || !this.wantsFetch);
    const hasRested = !this.#isStirred && isSupplied && this.holding.isAtRest && this.condemnedEpoch === null;
    if (isSupplied) this.#isStirred = false;
    return hasRested;
  }

  /** Its endpoint answers fast, and nothing holds it back. */
  isGoingOn(monotonicMs: number): boolean {
    return this.speed === 'proven' && !this.gate.isOpen && !this.gate.isPaused(monotonicMs);
  }

  /** `monotonicMs` as the gate has it. */
  mayStart(monotonicMs: number): boolean {
    const { target } = this;
    if (this.isClosed || target?.isActive !== true || this.condemnedEpoch === target.epoch) return false;
    if (this.holding.queued === 0 || this.#inFlight >= this.tempo.atOnce) return false;
    return this.gate.admits(this.#inFlight, monotonicMs);
  }

  /** The next delivery, now in flight. */
  take(): Pending | undefined {
    const delivery = this.holding.take();
    if (delivery === undefined) return undefined;
    this.#inFlight += 1;
    this.#isStirred = true;
    this.gate.started();
    return delivery;
  }

  /** A delivery that was taken and could not be sent after all: first in the queue again. */
  putBack(delivery: Pending): void {
    this.landed();
    this.requeue(delivery);
  }

  /** One that has landed without an outcome. */
  requeue(delivery: Pending): void {
    this.holding.putBack(delivery);
  }

  /** The exchange is over; the delivery stays known until its record is committed. */
  landed(): void {
    this.#inFlight -= 1;
    this.gate.ended();
  }
}
