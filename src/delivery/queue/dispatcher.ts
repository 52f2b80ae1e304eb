/** Attempts begun as the slots and the turns of the lanes allow, and what became of them recorded. */
import type { Lane } from './lane.ts';
import { ended, type Entry } from '../record/entry.ts';
import type { Recorder } from '../record/record.ts';
import { Ages } from './ages.ts';
import { Sender, type SenderDeps, type SenderSettings } from './sender.ts';
import { RunQueue, type ScheduledAttempt, type RunQueueLimits } from './run-queue.ts';

export type DispatchSettings = SenderSettings & RunQueueLimits & { unrecordedLimit: number };

type Deps = SenderDeps & {
  settings: DispatchSettings;
  recorder: Recorder;
  fenceOf: (shard: number) => number | undefined;
  /** Whether any may: our lease is sure. Where it is not for a moment, lanes stay in the ring. */
  mayAct: () => boolean;
  /** Something of the lane was settled: it may want a fetch, or have to be looked at later. */
  onCompleted: (lane: Lane) => void;
  /** The lane has to wait before it may start the next one. */
  onRateLimited: (lane: Lane) => void;
};

/** How often the ages of all exchanges are looked at, with one timer. */
const TICK_MS = 50;

export class Dispatcher {
  readonly #deps: Deps;
  readonly #runQueue: RunQueue;
  readonly #ages: Ages<ScheduledAttempt>;
  readonly #sender: Sender;
  readonly #ticking: NodeJS.Timeout;
  #tickedMs: number;
  /** Who waits until nothing else is under way is told. */
  #onAlone = (): void => {};
  #isPumping = false;
  #isStopped = false;

  constructor(deps: Deps) {
    const { clock, settings, mayStart, mayAct } = deps;
    this.#deps = deps;
    const isReady = (lane: Lane) => lane.mayStart(clock.monotonicMs()) && (mayStart(lane.shard) || !mayAct());
    this.#runQueue = new RunQueue(settings, isReady);
    this.#ages = new Ages(TICK_MS, settings.slowAfterMs);
    const write = (lane: Lane, entry: Entry) => this.#write(lane, entry);
    this.#sender = new Sender({
      ...deps,
      write,
      waitUntilAlone: () => this.#waitUntilAlone(),
      release: (attempt) => this.#release(attempt),
    });
    this.#tickedMs = clock.monotonicMs();
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
  }

  /** How many are in flight, and how much of that the slow ones have. */
  get slots(): RunQueue['slots'] {
    return this.#runQueue.slots;
  }

  /** Puts the lane into the ring if it can send; `pump` starts what there is room for. */
  enqueue(lane: Lane): void {
    const old = lane.takeOldEpochs();
    if (old.length > 0) {
      const fenced = { shard: lane.shard, fence: this.#deps.fenceOf(lane.shard) };
      for (const delivery of old) this.#write(lane, ended(fenced, delivery));
    }
    this.#runQueue.enqueue(lane);
  }

  pump(): void {
    // What ends at once asks for the next one in the middle of this: the loop goes on to it anyway, and as deep as it came.
    if (this.#isPumping) return;
    this.#isPumping = true;
    const { recorder, settings, quarantine, mayAct, fenceOf } = this.#deps;
    const hasRoom = () => recorder.unrecorded() < settings.unrecordedLimit;
    try {
      while (!this.#isStopped && mayAct() && quarantine.alone === undefined && hasRoom()) {
        const attempt = this.#runQueue.dequeue();
        if (attempt === undefined) return;
        attempt.fence = fenceOf(attempt.lane.shard);
        this.#applyRateLimit(attempt);
        this.enqueue(attempt.lane);
        attempt.ageBucket = this.#ages.add(attempt, attempt.lane.latency.timeBudgetMs(settings.slowAfterMs));
        this.#sender.start(attempt);
      }
    } finally {
      this.#isPumping = false;
    }
  }

  /** Ends every exchange of the lanes that `belongs` picks; nothing of them is recorded. Answers how many there were. */
  abort(belongs: (lane: Lane) => boolean): number {
    return this.#sender.abort(belongs);
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#sender.stop();
    clearInterval(this.#ticking);
  }

  /** Lets go of lanes that were closed: they might wait here for as long as their origin has no room. */
  removeClosed(): void {
    this.#runQueue.removeClosed();
  }

  #applyRateLimit({ lane, target }: ScheduledAttempt): void {
    if (target.ratePerSecond === null) return;
    lane.startConditions.applyRateLimit(target.ratePerSecond, this.#deps.clock.monotonicMs());
    this.#deps.onRateLimited(lane);
  }

  /** What became slow makes room for those who are not. */
  #tick(): void {
    const nowMs = this.#deps.clock.monotonicMs();
    this.#sender.loopLag.recordTimerDelay(nowMs - this.#tickedMs - TICK_MS);
    this.#tickedMs = nowMs;
    for (const attempt of this.#ages.tick()) this.#runQueue.markSlow(attempt);
    this.pump();
  }

  /** At once, or when all others are over: nothing starts meanwhile, so that is within the time-out of an exchange. */
  #waitUntilAlone(): Promise<void> {
    if (this.slots.inFlight === 1) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onAlone = resolve;
    return promise;
  }

  /** What it held is free, and its lane may go on. */
  #release(attempt: ScheduledAttempt): void {
    attempt.ageBucket?.delete(attempt);
    this.#runQueue.release(attempt);
    if (this.slots.inFlight === 1) this.#onAlone();
    this.#continue(attempt.lane);
  }

  #write(lane: Lane, entry: Entry): void {
    this.#deps.recorder.record(entry, (isWritten) => {
      if (isWritten) this.#persisted(lane, entry);
      this.#deps.quarantine.left(entry.delivery.id);
      this.#continue(lane);
    });
  }

  #continue(lane: Lane): void {
    this.#deps.onCompleted(lane);
    this.enqueue(lane);
    this.pump();
  }

  #persisted(lane: Lane, { shard, delivery, next, webhook }: Entry): void {
    this.#deps.quarantine.settled(shard, delivery.id);
    lane.deliveries.complete(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    // Whoever reads its settings next finds in the table that the webhook is to be switched off.
    if (webhook?.isPendingDisable === true) lane.forgetTarget();
  }
}
