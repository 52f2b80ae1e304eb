/** Runs an attempt from its slot to its outcome: checks that it may be sent, sends it and writes the outcome. */
import type { Runtime } from '#runtime/runtime.ts';
import { attempt, unsentAttempt, type Attempt, type AttemptDeps, type RunningAttempt } from '../attempt/attempt.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Connections } from '../attempt/http/endpoint-connections.ts';
import type { Body, Composer } from '../attempt/attempt-request.ts';
import { ended, deadLetter, decide, type Entry, type Fenced } from '../policy/entry.ts';
import type { AttemptMetrics } from '../delivery-metrics.ts';
import type { Ownership } from '../leases/ownership.ts';
import type { Quarantine } from '../quarantine.ts';
import { HEALTHY, momentOf, type DeactivationSettings } from '../policy/policy.ts';
import type { FetchRequests } from './lanes.ts';
import type { Lane } from './lane.ts';
import type { ScheduledAttempt, SlotUse } from './run-queue.ts';

type CompletionSettings = DeactivationSettings & {
  /** An attempt that takes longer counts as slow. */
  slowAfterMs: number;
};

/** Applies an outcome to the lane. `loopIsLagging`: our own event loop accounts for the duration of the attempt. */
export function complete(
  {
    lane,
    target,
    delivery,
    fence,
    inFlight,
    isProbe,
  }: Omit<ScheduledAttempt, keyof SlotUse | 'isOverBudget' | 'ageBucket'>,
  result: Attempt,
  loopIsLagging: boolean,
  { clock, random }: Pick<Runtime, 'clock' | 'random'>,
  settings: CompletionSettings,
): Entry {
  const isCurrent = lane.health?.epoch === target.epoch;
  const decision = decide({
    shard: lane.shard,
    fence,
    delivery,
    attempt: result,
    profile: target.retryProfile,
    health: isCurrent ? lane.health : HEALTHY,
    backoff: lane.startConditions.backoff,
    isProbe,
    isPendingDisable: isCurrent && lane.isPendingDisable,
    deactivation: settings,
    moment: momentOf(clock),
    random: random(),
  });
  lane.applyOutcome(target.epoch, decision);
  lane.latency.record(result.outcome, {
    durationMs: result.durationMs,
    isSlow: result.durationMs > settings.slowAfterMs,
    inFlight,
    hasMoreToSend: lane.first !== undefined,
    loopIsLagging,
  });
  return decision.entry;
}

/** The loop is busy if it was idle for less than this share of the time. */
const MIN_IDLE_SHARE = 1 / 10;
/**
 * Request and response each wait for most of a loop iteration. A duration above this many iterations is due to the
 * endpoint.
 */
const MAX_ITERATIONS = 4;
/** Share of the lag that remains after each tick. */
const DECAY = 3 / 4;

/**
 * Measures how far our own event loop lags. A response that waits in a busy loop says nothing about the endpoint. Does
 * no I/O.
 */
export class LoopLag {
  /** Estimated duration of a loop iteration under load. */
  #lagMs = 0;

  /** Records that a timer fired `lateMs` late. */
  recordTimerDelay(lateMs: number): void {
    this.#lagMs = Math.max(lateMs, this.#lagMs * DECAY);
  }

  /**
   * Returns whether our own event loop accounts for an attempt of `durationMs`, during which it was idle for `idleMs`.
   */
  isLagging(durationMs: number, idleMs: number): boolean {
    return idleMs < durationMs * MIN_IDLE_SHARE && durationMs < this.#lagMs * MAX_ITERATIONS;
  }
}

/** Interval at which one timer checks the age of all attempts. */
export const TICK_MS = 50;

/**
 * Finds attempts that exceed an age, with one check per tick instead of a timer per attempt. Age is counted in ticks,
 * not by the clock: a pause of our own event loop counts as one tick and makes no endpoint look slow.
 */
export class Ages<T> {
  /** A circular list of buckets: the items that become due at each of the next ticks. */
  readonly #buckets: Set<T>[];
  readonly #tickMs: number;
  #current = 0;

  /** Supports ages up to `maxMs`. */
  constructor(tickMs: number, maxMs: number) {
    this.#tickMs = tickMs;
    // Two more buckets: the next tick may be closer than one tick length, and the current bucket must not be used
    // again.
    this.#buckets = Array.from({ length: Math.ceil(maxMs / tickMs) + 2 }, () => new Set());
  }

  /**
   * Adds an item and returns its bucket, from which the caller deletes it when it ends; otherwise it would stay in
   * memory until its tick.
   */
  add(item: T, afterMs: number): Set<T> | undefined {
    const ticks = Math.min(Math.ceil(afterMs / this.#tickMs) + 1, this.#buckets.length - 1);
    return this.#buckets[(this.#current + ticks) % this.#buckets.length]?.add(item);
  }

  /** Advances by one tick and returns the items that are due. */
  tick(): ReadonlySet<T> {
    this.#current = (this.#current + 1) % this.#buckets.length;
    const due = this.#buckets[this.#current];
    this.#buckets[this.#current] = new Set();
    return due ?? new Set();
  }
}

/** Longer than a fast endpoint needs. At a slow endpoint the next attempt starts after this time. */
const WAIT_MS = 1_000;

type Position = {
  /** Resolves when the attempt may start; undefined if it may start at once. */
  readonly before: Promise<unknown> | undefined;
  /** To call when the attempt has ended or is cancelled. */
  readonly leave: () => void;
};

type Last = { before: Promise<unknown> | undefined; completed: Promise<void> };

/**
 * Keeps the attempts of one webhook about the same resource in order while its endpoint is fast. Attempts use several
 * connections, so of two that start together the later one may arrive first.
 */
class ResourceOrder {
  readonly #last = new Map<string, Last>();
  readonly #waiting = new Ages<() => void>(TICK_MS, WAIT_MS);

  /** Queues behind the attempts with the same key. */
  join(key: string): Position {
    const previous = this.#last.get(key);
    const { promise: completed, resolve } = Promise.withResolvers<void>();
    const before = previous && this.#follow(previous);
    const last = { before, completed };
    this.#last.set(key, last);
    const leave = (): void => {
      if (this.#last.get(key) === last) this.#last.delete(key);
      resolve();
    };
    return { before, leave };
  }

  async #follow({ before, completed }: Last): Promise<void> {
    await before;
    const { promise: waited, resolve } = Promise.withResolvers<void>();
    const bucket = this.#waiting.add(resolve, WAIT_MS);
    await Promise.race([completed, waited]);
    bucket?.delete(resolve);
  }

  tick(): void {
    for (const resolve of this.#waiting.tick()) resolve();
  }
}

export type SenderSettings = AttemptDeps['settings'] & CompletionSettings;

export type SenderRuntime = Pick<Runtime, 'clock' | 'random' | 'log'>;

export type SenderParts = {
  ownership: Ownership;
  bodies: Bodies;
  composer: Composer;
  connections: Connections;
  quarantine: Quarantine;
  requests: Pick<FetchRequests, 'reload'>;
  metrics: Pick<AttemptMetrics, 'aborted'>;
};

/**
 * How an attempt ends: with an entry to record, `returned` to the front of its lane because it was not sent, or `kept` in memory, by the
 * quarantine or because its entry cannot be made.
 */
export type AttemptResult = Entry | 'returned' | 'kept';

/** What follows an attempt. */
type AttemptEnds = {
  end: (scheduled: ScheduledAttempt, result: AttemptResult) => void;
  /** Resolves when the calling attempt is the only one in flight. */
  waitUntilAlone: () => Promise<void>;
};

const fencedOf = ({ lane, fence }: ScheduledAttempt): Fenced => ({ shard: lane.shard, fence });

/** Returns the idle time of the event loop since the process started. */
const idleMs = (): number => performance.nodeTiming.idleTime;

export class Sender {
  readonly #runtime: SenderRuntime;
  readonly #parts: SenderParts;
  readonly #settings: SenderSettings;
  readonly #ends: AttemptEnds;
  readonly #attemptDeps: AttemptDeps;
  readonly #running = new Map<RunningAttempt, Lane>();
  readonly #loopLag = new LoopLag();
  readonly #order = new ResourceOrder();
  #isStopped = false;

  constructor(runtime: SenderRuntime, parts: SenderParts, settings: SenderSettings, ends: AttemptEnds) {
    const { composer, connections } = parts;
    this.#runtime = runtime;
    this.#parts = parts;
    this.#settings = settings;
    this.#ends = ends;
    this.#attemptDeps = { composer, connections, clock: runtime.clock, settings };
  }

  /** Returns whether an attempt may start for the shard: this worker owns it, and its lease is confirmed. */
  mayStart(shard: number): boolean {
    const { ownership, quarantine } = this.#parts;
    return ownership.owns(shard) && ownership.isLeaseConfirmed() && quarantine.markers.has(shard);
  }

  /** Called every `TICK_MS`, `lateMs` late. */
  tick(lateMs: number): void {
    this.#loopLag.recordTimerDelay(lateMs);
    this.#order.tick();
  }

  /** Stops sending. */
  stop(): void {
    this.#isStopped = true;
  }

  /**
   * Aborts all exchanges of the lanes that `belongs` selects, and returns and counts their number. Nothing is recorded for them.
   */
  abort(belongs: (lane: Lane) => boolean): number {
    const found = [...this.#running].filter(([, lane]) => belongs(lane));
    for (const [running] of found) running.abort();
    this.#parts.metrics.aborted(found.length);
    return found.length;
  }

  /**
   * Sends synchronously unless something must be awaited, which is rare: promises for each step took about 2.7 KB per
   * delivery (sampled).
   */
  start(scheduled: ScheduledAttempt): void {
    const { lane, target, delivery } = scheduled;
    const { bodies, quarantine } = this.#parts;
    if (delivery.epoch !== target.epoch) return this.#reloadTarget(scheduled);
    const isQuarantined = quarantine.shards.has(lane.shard);
    const admission = isQuarantined ? quarantine.admit(lane, delivery) : 'send';
    if (admission === 'never') return this.#deadLetter(scheduled);
    if (admission === 'wait') return this.#ends.end(scheduled, 'kept');
    const body = bodies.peek(delivery);
    const mustMark = isQuarantined && quarantine.mustMark(lane.shard, delivery.id);
    if (body === undefined || mustMark) void this.#prepare(scheduled, body);
    else this.#send(scheduled, body);
  }

  async #prepare(scheduled: ScheduledAttempt, present: Body | undefined): Promise<void> {
    const { lane, delivery } = scheduled;
    const { bodies, quarantine } = this.#parts;
    let [body, isMarked, isCurrent] = [present, true, false];
    try {
      body ??= await bodies.find(delivery);
      // Before the note is written: a crash during this wait is not caused by this delivery.
      if (quarantine.slot.exclusiveId === delivery.id) await this.#ends.waitUntilAlone();
      if (quarantine.mustMark(lane.shard, delivery.id)) isMarked = await quarantine.mark(lane.shard, delivery.id);
      isCurrent = isMarked && this.#isCurrent(scheduled);
    } catch (error) {
      // The database was unavailable, which is not a fault of this delivery.
      return this.#failInternally(scheduled, 'internal', error);
    }
    if (!isCurrent) return this.#ends.end(scheduled, 'returned');
    if (body === undefined) return this.#ends.end(scheduled, ended(fencedOf(scheduled), delivery));
    this.#send(scheduled, body);
  }

  /**
   * Returns whether the attempt is still valid: while it waited, the webhook may have changed or the shard may have got
   * another owner.
   */
  #isCurrent({ lane, target }: ScheduledAttempt): boolean {
    return lane.target === target && !lane.isClosed && this.mayStart(lane.shard) && !this.#isStopped;
  }

  /**
   * Returns whether a started attempt may send its first byte, or send again on another connection. Also true while the
   * shard is being handed back, because that waits for attempts in flight; cancelling them would send them twice.
   */
  #mayBegin(shard: number): boolean {
    const { ownership } = this.#parts;
    return ownership.fenceOf(shard) !== undefined && ownership.isLeaseConfirmed();
  }

  #send(scheduled: ScheduledAttempt, body: Body): void {
    const { type, resourceId } = body.event;
    const { before, leave } = this.#order.join(`${scheduled.lane.webhookId} ${type} ${resourceId}`);
    if (before === undefined) return this.#attempt(scheduled, body, leave);
    void before.then(() => {
      if (this.#isCurrent(scheduled)) return this.#attempt(scheduled, body, leave);
      leave();
      this.#ends.end(scheduled, 'returned');
    });
  }

  #attempt(scheduled: ScheduledAttempt, body: Body, leave: () => void): void {
    const { lane, target, delivery } = scheduled;
    const idleBeforeMs = idleMs();
    // Attempts of closed lanes are aborted separately.
    const mayBegin = (): boolean => lane.target === target && this.#mayBegin(lane.shard);
    let running: RunningAttempt;
    try {
      const context = { webhookId: lane.webhookId, target, attempt: delivery.attempts + 1 };
      running = attempt(context, body, mayBegin, this.#attemptDeps);
    } catch (error) {
      leave();
      return this.#failInternally(scheduled, 'threw', error);
    }
    this.#running.set(running, lane);
    void running.ended.then((result) => {
      leave();
      this.#running.delete(running);
      if (result === null) return this.#ends.end(scheduled, 'returned');
      const loopIsLagging = this.#loopLag.isLagging(result.durationMs, idleMs() - idleBeforeMs);
      this.#complete(scheduled, result, loopIsLagging);
    });
  }

  #complete(scheduled: ScheduledAttempt, result: Attempt, loopIsLagging: boolean): void {
    let entry: Entry;
    try {
      entry = complete(scheduled, result, loopIsLagging, this.#runtime, this.#settings);
    } catch (error) {
      return this.#failInternally(scheduled, 'threw', error);
    }
    this.#ends.end(scheduled, entry);
  }

  /** `threw`: this delivery itself cannot be sent. */
  #failInternally(scheduled: ScheduledAttempt, kind: 'internal' | 'threw', error: unknown): void {
    const { log, clock } = this.#runtime;
    const about = { err: error, delivery: scheduled.delivery.id, webhook: scheduled.lane.webhookId };
    log.error(about, 'attempt failed internally');
    const unsent = unsentAttempt(kind, error, clock.now());
    let result: AttemptResult = 'kept';
    try {
      result = complete(scheduled, unsent, true, this.#runtime, this.#settings);
    } finally {
      this.#ends.end(scheduled, result);
    }
  }

  /** The delivery's epoch is newer than the loaded settings, which are read again. Older epochs were removed before. */
  #reloadTarget(scheduled: ScheduledAttempt): void {
    this.#parts.requests.reload(scheduled.lane);
    this.#ends.end(scheduled, 'returned');
  }

  /** Ends a delivery that crashed workers repeatedly. It is never sent again. */
  #deadLetter(scheduled: ScheduledAttempt): void {
    const { lane, delivery } = scheduled;
    const { log, clock } = this.#runtime;
    log.error({ delivery: delivery.id, webhook: lane.webhookId }, 'delivery ended because it crashed workers');
    this.#ends.end(scheduled, deadLetter(fencedOf(scheduled), delivery, 'crashed workers', clock.now()));
  }
}
