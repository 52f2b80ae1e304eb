/**
 * Starts attempts as slots and the run queue allow, and records their outcomes.
 */
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
import { Schedule } from './schedule.ts';

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
        quarantine.exclusiveId === undefined &&
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
    this.send(this.#parts.quarantine.leave(delivery.id));
  }

  /** Records the entry. The delivery stays known to its lane until then. */
  #write(lane: Lane, entry: Entry): void {
    const { recorder, quarantine } = this.#parts;
    recorder.record(entry, (isWritten) => {
      if (isWritten) this.#persisted(lane, entry);
      this.send(quarantine.leave(entry.delivery.id));
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
    this.#parts.quarantine.unmark(shard, delivery.id);
    lane.deliveries.complete(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    // Reading the settings again finds the pending disable, which is then executed.
    if (webhook?.isPendingDisable === true) this.#parts.requests.reload(lane);
  }
}
