/**
 * Whose turn it is: the ring of ready lanes, cut by how fast they are and by whether the first attempt of a delivery or a later
 * one is next. The part whose share of the slots is used up is passed over, so its lanes wait for each other alone. Each
 * step costs the same, with ten lanes ready or 100,000.
 */
import type { Lane } from './lane.ts';
import type { Pending } from './loaded-deliveries.ts';
import type { ActiveTarget } from './target.ts';
import type { Speed } from './latency-stats.ts';
import { Fifo } from './fifo.ts';
import { Quota } from './quota.ts';
import { shareOf, Slots, type SlotUse, type SlotLimits } from './slots.ts';

export type RunQueueLimits = SlotLimits & {
  /** What one store may have of the slots. */
  storeSlotsPercent: number;
  /** What all webhooks to one origin together may have of the slots. */
  originSlotsPercent: number;
};

/** A delivery that is being sent: it holds a slot, and a part of its store's and its origin's, until `end`. */
export type ScheduledAttempt = SlotUse & {
  readonly lane: Lane;
  readonly target: ActiveTarget;
  readonly delivery: Pending;
  /** How many the lane had under way with this one. */
  readonly inFlight: number;
  /** Under which its shard is ours while it starts: what becomes of it is recorded under no other. */
  fence: number | undefined;
  isOverBudget: boolean;
  /** Those among whom it waits to be late, until it is over. */
  ageBucket: Set<ScheduledAttempt> | undefined;
};

type Partition = {
  readonly speed: Speed;
  readonly isRetry: boolean;
  readonly lanes: Fifo<Lane>;
  /** Who was parked goes before those who came later, else they would take what it waited for. */
  readonly unblocked: Fifo<Lane>;
};

/** Where a lane was parked, and has to let in the next one who can use what it does not. */
export type BlockedOn = { readonly quota: Quota<number | string, Lane>; readonly key: number | string };

const isClosed = (lane: Lane): boolean => lane.isClosed;
const SPEEDS = ['fast', 'new', 'slow'] as const satisfies readonly Speed[];

export class RunQueue {
  readonly slots: Slots;
  readonly #mayStart: (lane: Lane) => boolean;
  readonly #partitions: readonly Partition[] = SPEEDS.flatMap((speed) =>
    [false, true].map((isRetry) => ({ speed, isRetry, lanes: new Fifo<Lane>(), unblocked: new Fifo<Lane>() })),
  );
  readonly #stores: Quota<number | string, Lane>;
  readonly #origins: Quota<number | string, Lane>;
  #lastSequence = 0;

  /** `mayStart`: the lane has something to send, and nothing but its turn holds it back. */
  constructor(limits: RunQueueLimits, mayStart: (lane: Lane) => boolean) {
    this.slots = new Slots(limits);
    this.#mayStart = mayStart;
    this.#stores = new Quota(shareOf(limits.slots, limits.storeSlotsPercent));
    this.#origins = new Quota(shareOf(limits.slots, limits.originSlotsPercent));
  }

  /** Puts the lane behind all others that are ready, unless it waits already or has nothing to send. */
  enqueue(lane: Lane): void {
    if (lane.isQueued || !this.#mayStart(lane)) return;
    this.#lastSequence += 1;
    lane.sequence = this.#lastSequence;
    lane.isQueued = true;
    this.#partitionOf(lane).lanes.push(lane);
  }

  /** Takes the next delivery of the lane whose turn it is; undefined when nobody may start. */
  dequeue(): ScheduledAttempt | undefined {
    for (let partition = this.#choose(); partition !== undefined; partition = this.#choose()) {
      const attempt = this.#takeFrom(partition);
      if (attempt !== undefined) return attempt;
    }
    return undefined;
  }

  /** The exchange is slow, or late for its endpoint: from now on only slow lanes wait for it. */
  markSlow(attempt: ScheduledAttempt): void {
    attempt.isOverBudget = true;
    attempt.lane.latency.attemptBecameSlow();
    this.slots.markSlow(attempt);
  }

  /** The exchange is over: what it held is free, and who waited for it is ready. */
  release(attempt: ScheduledAttempt): void {
    attempt.lane.latency.attemptEnded(attempt.isOverBudget);
    this.slots.release(attempt);
    const { delivery, target } = attempt;
    this.#stores.release(delivery.storeId);
    this.#origins.release(target.origin);
    for (const speed of SPEEDS) {
      this.#wake(this.#stores, delivery.storeId, speed);
      this.#wake(this.#origins, target.origin, speed);
    }
  }

  /** Lets go of lanes that were closed. Who was woken comes by and passes on what it does not use. */
  removeClosed(): void {
    for (const waiting of [...this.#partitions.map(({ lanes }) => lanes), this.#stores, this.#origins])
      waiting.prune(isClosed);
  }

  /** Of those who may start the one that waited longest, but first attempts that are owed their reserve go before. */
  #choose(): Partition | undefined {
    let chosen: Partition | undefined;
    let isOwed = false;
    let sequence = 0;
    for (const partition of this.#partitions) {
      const first = partition.unblocked.peek() ?? partition.lanes.peek();
      if (first === undefined || !this.slots.mayStart(partition.speed)) continue;
      const owed = this.slots.isBelowReserve(partition.speed, partition.isRetry);
      if (chosen !== undefined && (owed === isOwed ? first.sequence > sequence : isOwed)) continue;
      [chosen, isOwed, sequence] = [partition, owed, first.sequence];
    }
    return chosen;
  }

  #takeFrom(partition: Partition): ScheduledAttempt | undefined {
    const lane = partition.unblocked.shift() ?? partition.lanes.shift();
    if (lane === undefined) return undefined;
    lane.isQueued = false;
    const { blockedOn } = lane;
    lane.blockedOn = null;
    const attempt = this.#start(lane, partition, blockedOn !== null);
    // What it waited for and does not use is for the next one who waits there.
    if (blockedOn !== null && attempt === undefined) this.#wake(blockedOn.quota, blockedOn.key, partition.speed);
    return attempt;
  }

  #start(lane: Lane, { speed, isRetry }: Partition, wasUnblocked: boolean): ScheduledAttempt | undefined {
    const { first, target } = lane;
    if (first === undefined || target?.isActive !== true || !this.#mayStart(lane)) return undefined;
    // What is known of it changed while it waited: it goes on to wait where it belongs, and keeps its ticket.
    const partition = this.#partitionOf(lane);
    if (partition.speed !== speed || partition.isRetry !== isRetry) return this.#move(lane, partition);
    const exhausted = this.#exhaustedQuota(first.storeId, target.origin);
    if (exhausted !== null) {
      lane.isQueued = true;
      exhausted.quota.block(exhausted.key, speed, lane, wasUnblocked);
      return undefined;
    }
    const delivery = lane.take();
    if (delivery === undefined) return undefined;
    this.#stores.acquire(delivery.storeId);
    this.#origins.acquire(target.origin);
    const attempt: ScheduledAttempt = {
      lane,
      target,
      delivery,
      speed: speed,
      isRetry,
      inFlight: lane.inFlight,
      fence: undefined,
      isOverBudget: false,
      ageBucket: undefined,
    };
    this.slots.acquire(attempt);
    return attempt;
  }

  #move(lane: Lane, partition: Partition): undefined {
    lane.isQueued = true;
    partition.lanes.push(lane);
  }

  #exhaustedQuota(storeId: number, origin: string): BlockedOn | null {
    if (!this.#stores.hasCapacity(storeId)) return { quota: this.#stores, key: storeId };
    if (!this.#origins.hasCapacity(origin)) return { quota: this.#origins, key: origin };
    return null;
  }

  /** Lets in one who waited for the key at that speed; those who have nothing to send any more leave on the way. */
  #wake(quota: BlockedOn['quota'], key: BlockedOn['key'], speed: Speed): void {
    for (;;) {
      const lane = quota.wake(key, speed);
      if (lane === undefined) return;
      lane.isQueued = this.#mayStart(lane);
      if (!lane.isQueued) continue;
      const partition = this.#partitionOf(lane);
      partition.unblocked.push(lane);
      if (partition.speed !== speed) continue;
      lane.blockedOn = { quota, key };
      return;
    }
  }

  #partitionOf({ speed, first }: Lane): Partition {
    const isRetry = first !== undefined && first.attempts > 0;
    for (const partition of this.#partitions)
      if (partition.speed === speed && partition.isRetry === isRetry) return partition;
    throw new Error(`no part of the ring is for ${speed}`);
  }
}
