/** Starts attempts as slots and the run queue allow, wakes lanes at the right time, and records outcomes. */
import type { Clock } from '#core/clock.ts';
import type { Lane } from './lane.ts';
import { ended, deadLetter, type Entry, type Pending } from '../policy/entry.ts';
import type { Recorder } from '../record/record.ts';
import {
  Ages,
  Sender,
  TICK_MS,
  type AttemptResult,
  type SenderParts,
  type SenderRuntime,
  type SenderSettings,
} from './sender.ts';
import { Signal, type FetchRequests } from './lanes.ts';
import { RunQueue, type ScheduledAttempt, type RunQueueLimits } from './run-queue.ts';

// Wakes lanes: one timer over two timer wheels, for due times and for start conditions.

/**
 * A timer wheel: a circular list of time slots of equal length. Items further ahead than one revolution stay in their
 * slot for several revolutions, so `add` is O(1) and `takeDue` costs only the slots that passed. Buckets in a map were
 * all visited whenever one was due: 180,000 for an hour of 20 ms.
 */
export class TimerWheel<T> {
  readonly #slotMs: number;
  /** Per slot, its items with the absolute slot number in which they are due. */
  #slots: (Map<T, number> | undefined)[];
  /** The absolute number of the last processed slot. */
  #currentSlot: number;

  constructor({ slotMs, slots, nowMs }: { slotMs: number; slots: number; nowMs: number }) {
    this.#slotMs = slotMs;
    this.#slots = Array.from({ length: slots });
    this.#currentSlot = Math.floor(nowMs / slotMs);
  }

  /**
   * Schedules the item for the first slot that begins at or after `atMs`, never before. Added twice, it is due at the
   * earlier time.
   */
  add(item: T, atMs: number): void {
    this.#put(item, Math.ceil(atMs / this.#slotMs));
  }

  /** Removes and returns all due items. A clock that jumped ahead is followed, one that jumped back is waited for. */
  takeDue(nowMs: number): T[] {
    const now = Math.floor(nowMs / this.#slotMs);
    if (now < this.#currentSlot) this.#rewind(now);
    const passed = Math.min(now - this.#currentSlot, this.#slots.length);
    const items: T[] = [];
    for (let slot = now - passed + 1; slot <= now; slot += 1) this.#takeFrom(slot % this.#slots.length, now, items);
    this.#currentSlot = now;
    return items;
  }

  /** Removes items that need not wait any more. */
  prune(shouldRemove: (item: T) => boolean): void {
    for (const items of this.#slots)
      for (const item of items?.keys() ?? []) if (shouldRemove(item)) items?.delete(item);
  }

  /** Returns when an item may be due within the next `slots` slots; infinite if there is none. */
  nextDueMs(slots: number): number {
    for (let slot = this.#currentSlot + 1; slot <= this.#currentSlot + slots; slot += 1) {
      if (this.#slots[slot % this.#slots.length] !== undefined) return slot * this.#slotMs;
    }
    return Number.POSITIVE_INFINITY;
  }

  #put(item: T, slot: number): void {
    const index = Math.max(slot, this.#currentSlot + 1) % this.#slots.length;
    const items = (this.#slots[index] ??= new Map<T, number>());
    items.set(item, Math.min(items.get(item) ?? slot, slot));
  }

  #takeFrom(index: number, now: number, items: T[]): void {
    const waiting = this.#slots[index];
    if (waiting === undefined) return;
    for (const [item, slot] of waiting) {
      if (slot > now) continue;
      items.push(item);
      waiting.delete(item);
    }
    if (waiting.size === 0) this.#slots[index] = undefined;
  }

  /** Reinserts all items after the clock was set back. */
  #rewind(now: number): void {
    const before = this.#slots;
    this.#slots = Array.from({ length: before.length });
    this.#currentSlot = now;
    for (const items of before) for (const [item, slot] of items ?? []) this.#put(item, slot);
  }
}

/** Resolution of rate limits and pauses. A lane with a higher rate starts several attempts per slot. */
const START_SLOT_MS = 20;
const DUE_SLOT_MS = 250;
/** Number of slots: one revolution takes about 80 s and 17 minutes. */
const SLOTS = 4_096;
/** The longest sleep, after which a changed system clock is noticed. */
const MAX_SLEEP_SLOTS = 12;
const MAX_SLEEP_MS = MAX_SLEEP_SLOTS * START_SLOT_MS;

export class Schedule {
  readonly #clock: Clock;
  readonly #requests: Pick<FetchRequests, 'add'>;
  readonly #onDue: { send: (lanes: Iterable<Lane>) => void };
  /** Lanes by the due time of their next delivery, on the wall clock like the rows. */
  readonly #waitingLanes: TimerWheel<Lane>;
  /**
   * Lanes by the time of their next start, on the monotonic clock: setting the clock by five minutes must neither block
   * a lane nor cause a burst.
   */
  readonly #blockedLanes: TimerWheel<Lane>;
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = Number.NEGATIVE_INFINITY;

  /** Lanes whose start conditions allow an attempt are passed to `onDue`. */
  constructor(clock: Clock, requests: Pick<FetchRequests, 'add'>, onDue: { send: (lanes: Iterable<Lane>) => void }) {
    this.#clock = clock;
    this.#requests = requests;
    this.#onDue = onDue;
    this.#waitingLanes = new TimerWheel({ slotMs: DUE_SLOT_MS, slots: SLOTS, nowMs: clock.now().getTime() });
    this.#blockedLanes = new TimerWheel({ slotMs: START_SLOT_MS, slots: SLOTS, nowMs: clock.monotonicMs() });
  }

  start(): void {
    this.#sleep(MAX_SLEEP_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Requests what the lane needs (settings, rows) and schedules its next wake-up. */
  update(lane: Lane): void {
    if (lane.isClosed) return;
    if (lane.needsTarget || lane.needsFetch) this.#requests.add(lane);
    if (lane.deliveries.wakeAtMs < Number.POSITIVE_INFINITY) this.#scheduleDue(lane);
    if (lane.deliveries.queued > 0) this.#scheduleStart(lane);
  }

  /** Removes closed lanes, which could otherwise stay here for a revolution. */
  removeClosed(): void {
    for (const wheel of [this.#waitingLanes, this.#blockedLanes]) wheel.prune((lane) => lane.isClosed);
  }

  /** Schedules at most one revolution ahead, so that an evicted lane does not stay here for a day. */
  #scheduleDue(lane: Lane): void {
    this.#waitingLanes.add(lane, Math.min(lane.deliveries.wakeAtMs, this.#clock.now().getTime() + SLOTS * DUE_SLOT_MS));
  }

  /** Schedules a lane whose start conditions delay its next attempt. */
  #scheduleStart(lane: Lane): void {
    const { earliestStartMs } = lane.startConditions;
    const nowMs = this.#clock.monotonicMs();
    if (earliestStartMs <= nowMs) return;
    this.#blockedLanes.add(lane, earliestStartMs);
    if (earliestStartMs < this.#wakesAtMs - START_SLOT_MS && this.#timer !== undefined)
      this.#sleep(earliestStartMs - nowMs);
  }

  #sleep(ms: number): void {
    clearTimeout(this.#timer);
    this.#wakesAtMs = this.#clock.monotonicMs() + ms;
    this.#timer = setTimeout(() => this.#wake(), Math.max(ms, START_SLOT_MS / 2));
  }

  #wake(): void {
    const clock = this.#clock;
    const nowMs = clock.now().getTime();
    for (const lane of this.#waitingLanes.takeDue(nowMs)) {
      lane.deliveries.wake(nowMs);
      this.update(lane);
    }
    for (const lane of this.#blockedLanes.takeDue(clock.monotonicMs())) {
      if (lane.isClosed) continue;
      this.update(lane);
      this.#onDue.send([lane]);
    }
    const nextDueMs = this.#blockedLanes.nextDueMs(MAX_SLEEP_SLOTS) - clock.monotonicMs();
    if (this.#timer !== undefined) this.#sleep(Math.min(MAX_SLEEP_MS, Math.max(0, nextDueMs)));
  }
}

// Starts attempts and ends them.

export type DispatchSettings = SenderSettings & RunQueueLimits & { unrecordedLimit: number };

type DispatcherParts = SenderParts & { recorder: Recorder; requests: FetchRequests };

export class Dispatcher {
  readonly #clock: Clock;
  readonly #parts: DispatcherParts;
  readonly #settings: DispatchSettings;
  /** Fires whenever a delivery was completed or returned to the table. */
  readonly completions = new Signal();
  readonly #runQueue: RunQueue;
  readonly #ages: Ages<ScheduledAttempt>;
  readonly #sender: Sender;
  readonly #schedule: Schedule;
  readonly #ticking: NodeJS.Timeout;
  #tickedMs: number;
  /** Resolves the promise of `waitUntilAlone`. */
  #onAlone = (): void => {};
  #isPumping = false;
  #isStopped = false;

  constructor(runtime: SenderRuntime, parts: DispatcherParts, settings: DispatchSettings) {
    const { clock } = runtime;
    this.#clock = clock;
    this.#parts = parts;
    this.#settings = settings;
    this.#sender = new Sender(runtime, parts, settings, this);
    this.#schedule = new Schedule(clock, parts.requests, this);
    // While the lease is not confirmed, lanes stay in the run queue.
    const isReady = (lane: Lane) =>
      lane.mayStart(clock.monotonicMs()) && (this.#sender.mayStart(lane.shard) || !parts.ownership.isLeaseConfirmed());
    this.#runQueue = new RunQueue(settings, isReady);
    this.#ages = new Ages(TICK_MS, settings.slowAfterMs);
    this.#tickedMs = clock.monotonicMs();
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
  }

  start(): void {
    this.#schedule.start();
  }

  /** The slots in use and their limits. */
  get slots(): RunQueue['slots'] {
    return this.#runQueue.slots;
  }

  /** Starts what the lanes can send and schedules their timers and fetches. Does nothing for lanes without work. */
  send(lanes: Iterable<Lane>): void {
    let hasWork = false;
    for (const lane of lanes) {
      if (lane.isEmpty) continue;
      hasWork = true;
      this.#schedule.update(lane);
      this.#enqueue(lane);
    }
    if (hasWork) this.#pump();
  }

  /**
   * Adds the lane to the run queue if it can send; `#pump` starts the attempts. Ends its loaded deliveries of older
   * epochs, and those that waited too long for an unusable webhook.
   */
  #enqueue(lane: Lane): void {
    const [old, expired] = [lane.takeOldEpochs(), lane.takeExpired()];
    const fenced = { shard: lane.shard, fence: this.#parts.ownership.fenceOf(lane.shard) };
    for (const delivery of old) this.#write(lane, ended(fenced, delivery));
    for (const delivery of expired)
      this.#write(lane, deadLetter(fenced, delivery, 'unusable webhook', this.#clock.now()));
    this.#runQueue.enqueue(lane);
  }

  #pump(): void {
    // An attempt that ends at once calls `#pump` from inside this loop, which continues anyway; recursion could become
    // deep.
    if (this.#isPumping) return;
    this.#isPumping = true;
    const { recorder, quarantine, ownership } = this.#parts;
    const { unrecordedLimit, slowAfterMs } = this.#settings;
    const hasCapacity = () => recorder.unrecorded() < unrecordedLimit;
    try {
      while (
        !this.#isStopped &&
        ownership.isLeaseConfirmed() &&
        quarantine.slot.exclusiveId === undefined &&
        hasCapacity()
      ) {
        const attempt = this.#runQueue.dequeue();
        if (attempt === undefined) return;
        attempt.fence = ownership.fenceOf(attempt.lane.shard);
        this.#applyRateLimit(attempt);
        this.#enqueue(attempt.lane);
        attempt.ageBucket = this.#ages.add(attempt, attempt.lane.latency.timeBudgetMs(slowAfterMs));
        this.#sender.start(attempt);
      }
    } finally {
      this.#isPumping = false;
    }
  }

  /**
   * Aborts all exchanges of the lanes that `belongs` selects, and returns and counts their number. Nothing is recorded for them.
   */
  abort(belongs: (lane: Lane) => boolean): number {
    return this.#sender.abort(belongs);
  }

  /** Stops starting attempts. */
  stop(): void {
    this.#isStopped = true;
    this.#schedule.stop();
    this.#sender.stop();
    clearInterval(this.#ticking);
  }

  /** Removes closed lanes, which could otherwise wait for the quota of their origin, or for a revolution of a timer wheel. */
  removeClosed(): void {
    this.#schedule.removeClosed();
    this.#runQueue.removeClosed();
  }

  #applyRateLimit({ lane, target }: ScheduledAttempt): void {
    if (target.ratePerSecond === null) return;
    lane.startConditions.applyRateLimit(target.ratePerSecond, this.#clock.monotonicMs());
    this.#schedule.update(lane);
  }

  /** Marks attempts that exceed their time budget as slow, which frees slots for fast lanes. */
  #tick(): void {
    const nowMs = this.#clock.monotonicMs();
    this.#sender.tick(nowMs - this.#tickedMs - TICK_MS);
    this.#tickedMs = nowMs;
    for (const attempt of this.#ages.tick()) this.#runQueue.markSlow(attempt);
    this.#pump();
  }

  /**
   * Resolves when the calling attempt is the only one in flight. No attempt starts meanwhile, so this takes at most one
   * time-out.
   */
  waitUntilAlone(): Promise<void> {
    if (this.slots.inFlight === 1) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onAlone = resolve;
    return promise;
  }

  /** Ends an attempt: its slot and its quotas are free, and its lane continues. */
  end(attempt: ScheduledAttempt, result: AttemptResult): void {
    const { lane, delivery } = attempt;
    lane.attemptEnded();
    if (result === 'returned') this.#return(lane, delivery);
    else if (result !== 'kept') this.#write(lane, result);
    attempt.ageBucket?.delete(attempt);
    this.#runQueue.release(attempt);
    if (this.slots.inFlight === 1) this.#onAlone();
    this.#continue(lane);
  }

  #return(lane: Lane, delivery: Pending): void {
    lane.deliveries.requeue(delivery);
    this.#leaveQuarantine(lane, delivery);
  }

  #leaveQuarantine({ shard }: Lane, delivery: Pending): void {
    const { quarantine } = this.#parts;
    if (quarantine.shards.has(shard)) this.send(quarantine.leave(delivery.id));
  }

  /** Records the entry. The delivery stays known to its lane until then. */
  #write(lane: Lane, entry: Entry): void {
    this.#parts.recorder.record(entry, (isWritten) => {
      if (isWritten) this.#persisted(lane, entry);
      this.#leaveQuarantine(lane, entry.delivery);
      this.#continue(lane);
    });
  }

  #continue(lane: Lane): void {
    this.#schedule.update(lane);
    this.completions.fire();
    this.#enqueue(lane);
    this.#pump();
  }

  #persisted(lane: Lane, { shard, delivery, next, webhook }: Entry): void {
    // Recording the delivery has deleted its marker.
    this.#parts.quarantine.markers.get(shard)?.delete(delivery.id);
    lane.deliveries.complete(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    // Reading the settings again finds the pending disable, which is then executed.
    if (webhook?.isPendingDisable === true) this.#parts.requests.reload(lane);
  }
}
