/**
 * Decides which shards this worker owns: sends heartbeats, reads the leases, takes free and orphaned shards, hands back
 * surplus ones.
 */
import { openDedicated, type Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { SHARDS } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { LossCause, ShardMetrics, TakeCause } from '../delivery-metrics.ts';
import { beat, look, releaseShards, removeWorkers, retakeShards, type LeaseRow } from './leases-sql.ts';
import { CrashCounts } from '../quarantine.ts';
import { OtherWorkers, planShards, takeUnlocked, HandBack, type ShardEvents } from './balance.ts';

/**
 * One line for all shards of a loss: the only record of why the next owner, possibly this worker again, repeats attempts.
 */
const LOSS_MESSAGES: Readonly<Partial<Record<LossCause, string>>> = {
  silent:
    'lease expired: no heartbeat was confirmed in time; running attempts are aborted; none starts until a heartbeat is confirmed',
  fenced: 'shards lost: another worker owns them; running attempts are aborted',
};

type TakenShard = { shard: number; fence: number; crashCount: number };

/** The owned shards with their fencing tokens. */
export class OwnedShards {
  readonly #log: Log;
  readonly #metrics: ShardMetrics;
  readonly #fences = new Map<number, number>();
  /** Tokens of shards whose lease lapsed, until their next owner is known. */
  readonly #lapsedFences = new Map<number, number>();
  #changes = 0;
  #lapses = 0;

  constructor(log: Log, metrics: ShardMetrics) {
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Rises with every addition and loss. */
  get changes(): number {
    return this.#changes;
  }

  /** Rises whenever the lease lapses, even if no shard was owned. */
  get lapses(): number {
    return this.#lapses;
  }

  get shards(): number[] {
    return [...this.#fences.keys()];
  }

  /** Returns the fencing token to record under; undefined if the shard is not owned. */
  fenceOf(shard: number): number | undefined {
    return this.#fences.get(shard);
  }

  /**
   * Returns the token also after a lapse of the lease: until the shard is taken again, only the table can reject that
   * token.
   */
  lastFenceOf(shard: number): number | undefined {
    return this.#fences.get(shard) ?? this.#lapsedFences.get(shard);
  }

  add(shards: readonly TakenShard[], causeOf: (taken: TakenShard) => TakeCause): void {
    this.#changes += 1;
    for (const { shard, fence } of shards) {
      this.#fences.set(shard, fence);
      this.#lapsedFences.delete(shard);
    }
    if (shards.length === 0) return;
    const counts = [...Map.groupBy(shards, causeOf)].map(([cause, { length }]) => [cause, length] as const);
    for (const [cause, count] of counts) this.#metrics.taken(cause, count);
    this.#log.info({ ...Object.fromEntries(counts), owned: this.#fences.size }, 'took shards');
  }

  /** Returns those of the shards that were owned. */
  remove(shards: readonly number[], cause: LossCause): number[] {
    for (const shard of shards) {
      const fence = this.#fences.get(shard);
      if (cause !== 'silent') this.#lapsedFences.delete(shard);
      else if (fence !== undefined) this.#lapsedFences.set(shard, fence);
    }
    const removed = shards.filter((shard) => this.#fences.delete(shard));
    this.#changes += removed.length;
    if (cause === 'silent') this.#lapses += 1;
    if (removed.length === 0) return removed;
    this.#metrics.lost(cause, removed.length);
    const message = LOSS_MESSAGES[cause];
    if (message !== undefined) this.#log.warn({ shards: removed.length }, message);
    return removed;
  }

  /** Counts a change after a hand-back: a list read before it may be outdated. */
  noteChange(): void {
    this.#changes += 1;
  }
}

export type LeaseSettings = { workerId: number; leaseMs: number; leaseMarginMs: number; beatMs: number };

/** The heartbeat of this worker and the validity of its lease. */
class Heartbeat {
  readonly #clock: Clock;
  readonly #settings: LeaseSettings;
  /**
   * A connection of its own: ten long statements in the shared pool would delay the heartbeat and end a live worker's
   * lease.
   */
  readonly #connection: Sql;
  /** Monotonic time from which the lease counts. */
  #confirmedAtMs = Number.NEGATIVE_INFINITY;

  /** `onDisconnected` is called when the session of the heartbeats has ended. */
  constructor(runtime: Pick<Runtime, 'direct' | 'clock'>, settings: LeaseSettings, onDisconnected: () => void) {
    const { leaseMs, leaseMarginMs } = settings;
    this.#clock = runtime.clock;
    this.#settings = settings;
    // A heartbeat that is answered later than this confirms nothing.
    this.#connection = openDedicated(runtime.direct, leaseMs - leaseMarginMs, onDisconnected);
  }

  /** Returns whether a heartbeat was confirmed recently enough that no other worker can have taken over. */
  isValid(): boolean {
    const { leaseMs, leaseMarginMs } = this.#settings;
    return this.#clock.monotonicMs() < this.#confirmedAtMs + leaseMs - leaseMarginMs;
  }

  /**
   * Sends one heartbeat; calls `onConfirmed` before the lease is extended. Rejects if the heartbeat was not confirmed.
   */
  async beat(onConfirmed: () => void): Promise<void> {
    // The lease counts from before the statement was sent: no other worker saw the new counter earlier.
    const requestedAtMs = this.#clock.monotonicMs();
    await beat(this.#connection, this.#settings.workerId, this.#clock.now());
    onConfirmed();
    this.#confirmedAtMs = requestedAtMs;
  }

  stop(): Promise<void> {
    return this.#connection.end({ timeout: 0 });
  }
}

/** The fencing tokens under which the owner of a shard writes. A rejected token is reported to `lost`. */
export type OwnerTokens = Pick<Ownership, 'workerId' | 'fenceOf' | 'lost'>;

type OwnershipRuntime = Pick<Runtime, 'direct' | 'clock' | 'log' | 'pace'>;

export class Ownership implements Running {
  /** The id of this worker in the table of leases. */
  readonly workerId: number;
  /** The connections of heartbeat and leases are opened from `direct`, which has no connection pooler in between. */
  readonly #runtime: OwnershipRuntime;
  readonly #settings: LeaseSettings;
  /** Undefined until `start`: no shard is owned before. */
  #work: ShardEvents | undefined;
  readonly #otherWorkers: OtherWorkers;
  readonly #heartbeat: Heartbeat;
  /** Separate from the heartbeat's connection: reading and taking leases may wait for row locks. */
  readonly #connection: Sql;
  readonly #owned: OwnedShards;
  /** The owners of all shards in the latest list. */
  #owners: ReadonlyMap<number, number> = new Map();
  readonly crashCounts: CrashCounts;
  /** Number of shards that `stop` handed back. */
  handedBack = 0;
  readonly #handBack: HandBack;
  #isStopping = false;
  #isStopped = false;
  #isQuiet = false;
  #timer: NodeJS.Timeout | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  #refreshing: Promise<void> | undefined;

  constructor(runtime: OwnershipRuntime, settings: LeaseSettings, metrics: ShardMetrics) {
    const { workerId, leaseMs } = settings;
    this.workerId = workerId;
    this.#runtime = runtime;
    this.#settings = settings;
    this.crashCounts = new CrashCounts(workerId, runtime.clock);
    this.#owned = new OwnedShards(runtime.log, metrics);
    this.#otherWorkers = new OtherWorkers(workerId, leaseMs);
    this.#heartbeat = new Heartbeat(runtime, settings, () => this.#reconnect());
    this.#connection = openDedicated(runtime.direct, leaseMs);
    this.#handBack = new HandBack({
      log: runtime.log,
      release: async (shards) => {
        this.#remove(shards, 'returned');
        await releaseShards(this.#connection, workerId, shards);
      },
      onFinished: () => this.#owned.noteChange(),
    });
  }

  /** Takes shards from now on. `work` uses parts that need this ownership, so it does not exist when the ownership is constructed. */
  start(work: ShardEvents): void {
    this.#work = work;
    this.#runtime.pace.refreshBy(async () => this.#next(0));
    this.#loop();
    // Suspends the worker at lease − margin, even if its heartbeat is stuck on a dead connection.
    this.#watchdog = setInterval(() => this.#suspendWhenExpired(), Math.max(20, this.#settings.leaseMarginMs / 4));
  }

  /** Returns the fencing token to record under; undefined if the shard is not owned. */
  fenceOf(shard: number): number | undefined {
    return this.#owned.fenceOf(shard);
  }

  /** Returns the token also after a lapse of the lease, while no other owner is known. */
  lastFenceOf(shard: number): number | undefined {
    return this.#owned.lastFenceOf(shard);
  }

  /** Returns whether this worker takes new work of the shard: it owns it and is not handing it back. */
  owns(shard: number): boolean {
    return this.#owned.fenceOf(shard) !== undefined && !this.#handBack.inProgress.has(shard);
  }

  /** Returns the owner of a shard in the latest list of leases; it may have changed since. */
  ownerOf(shard: number): number | undefined {
    return this.#owners.get(shard);
  }

  /** Returns all shards for which `owns` is true. */
  owned(): number[] {
    return this.#owned.shards.filter((shard) => this.owns(shard));
  }

  /** Whether the process is quiet, so that no heartbeats are sent. */
  get isQuiet(): boolean {
    return this.#isQuiet;
  }

  /** Returns whether a heartbeat was confirmed recently enough that no other worker can have taken over. */
  isLeaseConfirmed(): boolean {
    return this.#heartbeat.isValid();
  }

  /** Removes a shard that another worker owns, unless the report concerns an earlier token of this worker. */
  lost(shard: number, fence: number): void {
    if (this.lastFenceOf(shard) === fence) this.#remove([shard], 'fenced');
  }

  /** Keeps the owned shards until `stop`, without taking or handing back any. */
  stopTaking(): void {
    this.#isStopping = true;
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watchdog);
    await Promise.all([this.#beating, this.#refreshing]);
    const shards = this.#owned.shards;
    const all = Array.from({ length: SHARDS }, (_, shard) => shard);
    this.#remove(all, 'returned');
    try {
      await releaseShards(this.#connection, this.workerId, all);
      this.handedBack = shards.length;
      await removeWorkers(this.#connection, [this.workerId]);
    } catch (error) {
      this.#runtime.log.warn({ err: error }, 'handing back shards failed; they become free when the lease expires');
    }
    await Promise.all([this.#heartbeat.stop(), this.#connection.end({ timeout: 0 })]);
  }

  /** Sends a heartbeat with a new session before other workers miss the one that has ended. */
  #reconnect(): void {
    this.#otherWorkers.ownSessionEnded(this.#runtime.clock.monotonicMs());
    this.#next(0);
  }

  /** The interval of heartbeats while a session is missing, of another worker or of this one. */
  #hurryMs(): number {
    return Math.min(this.#settings.beatMs, this.#otherWorkers.graceMs);
  }

  /** Brings the next heartbeat forward, unless one is running. */
  #next(delayMs: number): void {
    if (this.#timer === undefined || this.#isStopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loop(), delayMs);
  }

  /**
   * Notes whether the process is quiet. The lease lapses then, and a worker with work may take the shards; after the quiet time this
   * worker takes them again, and ignores how long other counters stood still: those workers sent no heartbeats either.
   */
  #checkPace(): void {
    const { isQuiet } = this.#runtime.pace;
    if (this.#isQuiet && !isQuiet) {
      if (!this.isLeaseConfirmed()) this.#remove(this.#owned.shards, 'quiet');
      this.#otherWorkers.forget();
    }
    this.#isQuiet = isQuiet;
  }

  /** Sends a heartbeat; after a confirmed one refreshes the leases, unless a refresh is still running. */
  #loop(): void {
    this.#timer = undefined;
    this.#checkPace();
    if (this.#isQuiet) {
      this.#timer = setTimeout(() => this.#loop(), this.#settings.beatMs);
      return;
    }
    this.#beating = this.#heartbeat
      .beat(() => this.#suspendWhenExpired())
      .then(() => {
        this.#refreshing ??= this.#refresh()
          .catch((error: unknown) => this.#logFailure(error))
          .finally(() => (this.#refreshing = undefined));
      })
      .then(() => this.#settings.beatMs)
      .catch((error: unknown) => {
        this.#logFailure(error);
        this.#otherWorkers.ownSessionEnded(this.#runtime.clock.monotonicMs());
        return this.#hurryMs();
      })
      .then((delayMs) => {
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#loop(), delayMs);
      });
  }

  #logFailure(error: unknown): void {
    if (isUnavailable(error))
      this.#runtime.log.warn({ err: error }, 'heartbeat failed: database unavailable; the lease will expire');
    else this.#runtime.log.error({ err: error }, 'heartbeat failed');
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#runtime;
    const { changes } = this.#owned;
    const requestedAtMs = clock.monotonicMs();
    const [workers, leases] = await look(this.#connection);
    this.#owners = new Map(leases.flatMap(({ shard, owner }) => (owner === null ? [] : [[shard, owner]])));
    this.#otherWorkers.observe(workers, leases, { requestedAtMs, nowMs: clock.monotonicMs() });
    if (this.#otherWorkers.hasDisconnected()) this.#next(this.#hurryMs());
    // Shards were lost or handed back while the list was read, so it may be outdated; the next refresh reads a new one.
    if (changes !== this.#owned.changes || this.#isStopped || !this.isLeaseConfirmed()) return;
    await this.#reconcile(leases);
    if (!this.#isStopping) await this.#balance(leases);
  }

  /** Compares the table with memory: a different token means that the shard had another owner meanwhile. */
  async #reconcile(leases: readonly LeaseRow[]): Promise<void> {
    const self = this.workerId;
    const ownRows = new Map(leases.filter(({ owner }) => owner === self).map((row) => [row.shard, row]));
    const lost = this.#owned.shards.filter((shard) => ownRows.get(shard)?.fence !== this.#owned.fenceOf(shard));
    this.#remove(lost, 'fenced');
    // Under a new token the shard would reject results of attempts started before the lapse, so those are recorded
    // first.
    const isBusy = (shard: number) => this.#handBack.inProgress.has(shard) || this.#work?.isRecording(shard) === true;
    const missing = [...ownRows.keys()].filter((shard) => this.fenceOf(shard) === undefined && !isBusy(shard));
    if (missing.length === 0) return;
    const lapses = this.#owned.lapses;
    const taken = await retakeShards(this.#connection, self, missing);
    this.#add(lapses, taken, () => 'own');
  }

  async #balance(leases: readonly LeaseRow[]): Promise<void> {
    const dead = this.#otherWorkers.dead();
    const deadIds = new Set(dead.map(({ id }) => id));
    const workers = { self: this.workerId, live: this.#otherWorkers.live(), dead: deadIds };
    const { take, handBack } = planShards(leases, workers, this.#handBack.inProgress);
    if (take.length > 0) {
      // The take-over was committed before the first fetch: the previous owner can record nothing any more.
      const request = { shards: take, dead, lockMs: Math.floor(this.#settings.leaseMs / 4) };
      const lapses = this.#owned.lapses;
      const taken = await takeUnlocked(this.#connection, this.workerId, request);
      // A free shard has no crash count, and a take-over from a dead owner raises it.
      this.#add(lapses, taken, ({ crashCount }) => (crashCount > 0 ? 'dead' : 'free'));
    }
    if (deadIds.size > 0) await removeWorkers(this.#connection, [...deadIds]);
    await this.crashCounts.resetStable(this.#connection);
    if (this.#work !== undefined) void this.#handBack.start(handBack, this.#work);
  }

  #suspendWhenExpired(): void {
    if (!this.#isQuiet && !this.isLeaseConfirmed()) this.#remove(this.#owned.shards, 'silent');
  }

  #remove(shards: readonly number[], cause: LossCause): void {
    const removed = this.#owned.remove(shards, cause);
    if (removed.length > 0) this.#work?.lost(removed);
  }

  /**
   * Adds taken shards, unless the lease lapsed since the statement was sent: another worker may have taken over, and
   * the next refresh finds out.
   */
  #add(lapses: number, shards: readonly TakenShard[], causeOf: Parameters<OwnedShards['add']>[1]): void {
    if (lapses !== this.#owned.lapses || !this.isLeaseConfirmed()) return;
    this.crashCounts.add(shards);
    this.#owned.add(shards, causeOf);
    if (shards.length > 0) this.#work?.gained(shards.map(({ shard }) => shard));
  }
}
