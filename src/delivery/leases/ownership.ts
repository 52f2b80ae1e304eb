/**
 * Decides which shards this worker owns: sends heartbeats, reads the leases, takes free and orphaned shards, hands back
 * surplus ones.
 */
import { DedicatedConnection } from '#db/dedicated-connection.ts';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { SHARDS } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import type { LossCause, ShardMetrics, TakeCause } from '../delivery-metrics.ts';
import { look, releaseShards, removeWorkers, retakeShards, type LeaseRow } from './leases-sql.ts';
import { CrashCounts } from './crash-count.ts';
import { Heartbeat, type LeaseSettings } from './heartbeat.ts';
import { OtherWorkers, planShards, takeUnlocked } from './balance.ts';

// Hands shards back: takes no new work for them and releases each once all its work is recorded.

type HandBackDeps = {
  log: Log;
  /**
   * Takes no new work for the shards; resolves with those of which nothing is in memory any more, as soon as there are
   * any.
   */
  drain: (shards: readonly number[]) => Promise<number[]>;
  /** Called for shards that stay owned after a failed hand-back: notifications about them were ignored meanwhile. */
  onKept: (shards: number[]) => void;
  /** Returns whether results of the shard are not recorded yet. */
  isRecording: (shard: number) => boolean;
};

export class HandBack {
  readonly #deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void };
  readonly #inProgress = new Set<number>();

  /**
   * `release` gives the shards up and then updates the table; `onFinished` is called when shards leave `inProgress`.
   */
  constructor(deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void }) {
    this.#deps = deps;
  }

  get inProgress(): ReadonlySet<number> {
    return this.#inProgress;
  }

  /** Releases each shard as soon as it is empty, so that a slow receiver does not delay the other shards. */
  async start(shards: readonly number[]): Promise<void> {
    const { log, drain, release, onKept } = this.#deps;
    let remaining = [...shards];
    for (const shard of shards) this.#inProgress.add(shard);
    try {
      while (remaining.length > 0) {
        const empty = await drain(remaining);
        await release(empty);
        this.#finish(empty);
        remaining = remaining.filter((shard) => this.#inProgress.has(shard));
      }
    } catch (error) {
      log.warn({ err: error }, 'handing back shards failed');
      this.#finish(remaining);
      onKept(remaining);
    }
  }

  /** Removes shards that were released or that stay owned. */
  #finish(shards: readonly number[]): void {
    for (const shard of shards) this.#inProgress.delete(shard);
    this.#deps.onFinished();
  }
}

type OwnedShardsDeps = {
  log: Log;
  metrics: ShardMetrics;
  onGained: (shards: number[]) => void;
  /** Called on a loss: exchanges of these shards have to be aborted and their queues discarded at once. */
  onLost: (shards: number[]) => void;
};

/**
 * Logged once for all shards of a loss: the only record of why the next owner, possibly this worker again, repeats
 * attempts.
 */
const LOSS_MESSAGES: Readonly<Partial<Record<LossCause, string>>> = {
  silent:
    'lease expired: no heartbeat was confirmed in time; running attempts are aborted; none starts until a heartbeat is confirmed',
  fenced: 'shards lost: another worker owns them; running attempts are aborted',
};

type TakenShard = { shard: number; fence: number; crashCount: number };

/** The owned shards with their fencing tokens. */
export class OwnedShards {
  readonly #deps: OwnedShardsDeps;
  readonly #fences = new Map<number, number>();
  /** Tokens of shards whose lease lapsed, until their next owner is known. */
  readonly #lapsedFences = new Map<number, number>();
  #changes = 0;
  #lapses = 0;

  constructor(deps: OwnedShardsDeps) {
    this.#deps = deps;
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
    const { log, metrics, onGained } = this.#deps;
    this.#changes += 1;
    for (const { shard, fence } of shards) {
      this.#fences.set(shard, fence);
      this.#lapsedFences.delete(shard);
    }
    if (shards.length === 0) return;
    const counts = [...Map.groupBy(shards, causeOf)].map(([cause, { length }]) => [cause, length] as const);
    for (const [cause, count] of counts) metrics.taken(cause, count);
    log.info({ ...Object.fromEntries(counts), owned: this.#fences.size }, 'took shards');
    onGained(shards.map(({ shard }) => shard));
  }

  remove(shards: readonly number[], cause: LossCause): void {
    for (const shard of shards) {
      const fence = this.#fences.get(shard);
      if (cause !== 'silent') this.#lapsedFences.delete(shard);
      else if (fence !== undefined) this.#lapsedFences.set(shard, fence);
    }
    const removed = shards.filter((shard) => this.#fences.delete(shard));
    this.#changes += removed.length;
    if (cause === 'silent') this.#lapses += 1;
    if (removed.length === 0) return;
    this.#deps.metrics.lost(cause, removed.length);
    const message = LOSS_MESSAGES[cause];
    if (message !== undefined) this.#deps.log.warn({ shards: removed.length }, message);
    this.#deps.onLost(removed);
  }

  /** Counts a change after a hand-back: a list read before it may be outdated. */
  noteChange(): void {
    this.#changes += 1;
  }
}

type Deps = OwnedShardsDeps &
  HandBackDeps & {
    /** A pool without a connection pooler in between, from which the heartbeat opens connections of its own. */
    direct: Sql;
    clock: Clock;
    log: Log;
    settings: LeaseSettings;
  };

export class Ownership implements Running {
  readonly #deps: Deps;
  readonly #otherWorkers: OtherWorkers;
  readonly #heartbeat: Heartbeat;
  /** Separate from the heartbeat's connection: reading and taking leases may wait for row locks. */
  readonly #connection: DedicatedConnection;
  readonly #owned: OwnedShards;
  /** The owners of all shards in the latest list. */
  #owners: ReadonlyMap<number, number> = new Map();
  readonly crashCounts: CrashCounts;
  /** Number of shards that `stop` handed back. */
  handedBack = 0;
  readonly #handBack: HandBack;
  #isStopping = false;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  #refreshing: Promise<void> | undefined;

  constructor(deps: Deps) {
    const { workerId, leaseMs } = deps.settings;
    this.#deps = deps;
    this.crashCounts = new CrashCounts(workerId, deps.clock);
    this.#owned = new OwnedShards(deps);
    this.#otherWorkers = new OtherWorkers(workerId, leaseMs);
    this.#heartbeat = new Heartbeat(deps, () => this.#reconnect());
    this.#connection = new DedicatedConnection(deps.direct, leaseMs);
    this.#handBack = new HandBack({
      ...deps,
      release: async (shards) => {
        this.#owned.remove(shards, 'returned');
        await this.#connection.query((sql) => releaseShards(sql, workerId, shards));
      },
      onFinished: () => this.#owned.noteChange(),
    });
  }

  start(): void {
    this.#loop();
    // Suspends the worker at lease − margin, even if its heartbeat is stuck on a dead connection.
    this.#watchdog = setInterval(() => this.#suspendWhenExpired(), Math.max(20, this.#deps.settings.leaseMarginMs / 4));
  }

  /** Returns the fencing token to record under; undefined if the shard is not owned. */
  fenceOf(shard: number): number | undefined {
    return this.#owned.fenceOf(shard);
  }

  /** Returns the token also after a lapse of the lease, while no other owner is known. */
  readonly lastFenceOf = (shard: number): number | undefined => this.#owned.lastFenceOf(shard);

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

  /** Returns whether a heartbeat was confirmed recently enough that no other worker can have taken over. */
  isLeaseConfirmed(): boolean {
    return this.#heartbeat.isValid();
  }

  /** Removes a shard that another worker owns, unless the report concerns an earlier token of this worker. */
  lost(shard: number, fence: number): void {
    if (this.lastFenceOf(shard) === fence) this.#owned.remove([shard], 'fenced');
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
    this.#owned.remove(all, 'returned');
    const { log, settings } = this.#deps;
    try {
      await this.#connection.query((sql) => releaseShards(sql, settings.workerId, all));
      this.handedBack = shards.length;
      await this.#connection.query((sql) => removeWorkers(sql, [settings.workerId]));
    } catch (error) {
      log.warn({ err: error }, 'handing back shards failed; they become free when the lease expires');
    }
    await Promise.all([this.#heartbeat.stop(), this.#connection.stop()]);
  }

  /** Sends a heartbeat with a new session before other workers miss the one that has ended. */
  #reconnect(): void {
    this.#otherWorkers.ownSessionEnded(this.#deps.clock.monotonicMs());
    this.#next(0);
  }

  /** The interval of heartbeats while a session is missing, of another worker or of this one. */
  #hurryMs(): number {
    return Math.min(this.#deps.settings.beatMs, this.#otherWorkers.graceMs);
  }

  /** Brings the next heartbeat forward, unless one is running. */
  #next(delayMs: number): void {
    if (this.#timer === undefined || this.#isStopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loop(), delayMs);
  }

  /** Sends a heartbeat; after a confirmed one refreshes the leases, unless a refresh is still running. */
  #loop(): void {
    this.#timer = undefined;
    this.#beating = this.#heartbeat
      .beat(() => this.#suspendWhenExpired())
      .then(() => {
        this.#refreshing ??= this.#refresh()
          .catch((error: unknown) => this.#logFailure(error))
          .finally(() => (this.#refreshing = undefined));
      })
      .then(() => this.#deps.settings.beatMs)
      .catch((error: unknown) => {
        this.#logFailure(error);
        this.#otherWorkers.ownSessionEnded(this.#deps.clock.monotonicMs());
        return this.#hurryMs();
      })
      .then((delayMs) => {
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#loop(), delayMs);
      });
  }

  #logFailure(error: unknown): void {
    if (isUnavailable(error))
      this.#deps.log.warn({ err: error }, 'heartbeat failed: database unavailable; the lease will expire');
    else this.#deps.log.error({ err: error }, 'heartbeat failed');
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#deps;
    const { changes } = this.#owned;
    const requestedAtMs = clock.monotonicMs();
    const [workers, leases] = await this.#connection.query(look);
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
    const self = this.#deps.settings.workerId;
    const ownRows = new Map(leases.filter(({ owner }) => owner === self).map((row) => [row.shard, row]));
    const lost = this.#owned.shards.filter((shard) => ownRows.get(shard)?.fence !== this.#owned.fenceOf(shard));
    this.#owned.remove(lost, 'fenced');
    // Under a new token the shard would reject results of attempts started before the lapse, so those are recorded
    // first.
    const isBusy = (shard: number) => this.#handBack.inProgress.has(shard) || this.#deps.isRecording(shard);
    const missing = [...ownRows.keys()].filter((shard) => this.fenceOf(shard) === undefined && !isBusy(shard));
    if (missing.length === 0) return;
    const lapses = this.#owned.lapses;
    const taken = await this.#connection.query((sql) => retakeShards(sql, self, missing));
    this.#add(lapses, taken, () => 'own');
  }

  async #balance(leases: readonly LeaseRow[]): Promise<void> {
    const { settings } = this.#deps;
    const dead = this.#otherWorkers.dead();
    const deadIds = new Set(dead.map(({ id }) => id));
    const workers = { self: settings.workerId, live: this.#otherWorkers.live(), dead: deadIds };
    const { take, handBack } = planShards(leases, workers, this.#handBack.inProgress);
    if (take.length > 0) {
      // Committed before the first fetch: the previous owner can record nothing any more.
      const request = { shards: take, dead, lockMs: Math.floor(settings.leaseMs / 4) };
      const lapses = this.#owned.lapses;
      const taken = await takeUnlocked((query) => this.#connection.query(query), settings.workerId, request);
      // A free shard has no crash count, and a take-over from a dead owner raises it.
      this.#add(lapses, taken, ({ crashCount }) => (crashCount > 0 ? 'dead' : 'free'));
    }
    if (deadIds.size > 0) await this.#connection.query((sql) => removeWorkers(sql, [...deadIds]));
    await this.crashCounts.resetStable((query) => this.#connection.query(query));
    void this.#handBack.start(handBack);
  }

  #suspendWhenExpired(): void {
    if (!this.isLeaseConfirmed()) this.#owned.remove(this.#owned.shards, 'silent');
  }

  /**
   * Adds taken shards, unless the lease lapsed since the statement was sent: another worker may have taken over, and
   * the next refresh finds out.
   */
  #add(lapses: number, shards: readonly TakenShard[], causeOf: Parameters<OwnedShards['add']>[1]): void {
    if (lapses !== this.#owned.lapses || !this.isLeaseConfirmed()) return;
    this.crashCounts.add(shards);
    this.#owned.add(shards, causeOf);
  }
}
