/** Which shards this worker owns: beat, look, take what is free or orphaned, hand back what is too many. */
import { Lifeline } from '#db/lifeline.ts';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { SHARDS } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { look, releaseShards, removeWorkers, retakeShards, type LeaseRow } from './leases-sql.ts';
import { CrashCounts } from './crash-count.ts';
import { HandBack, type HandBackDeps } from './hand-back.ts';
import { Heartbeat, type LeaseSettings } from './heartbeat.ts';
import { OwnedShards, type OwnedShardsDeps, type TakenShard } from './owned-shards.ts';
import { OtherWorkers } from './other-workers.ts';
import { planShards } from './share.ts';
import { takeUnlocked } from './take.ts';

type Deps = OwnedShardsDeps &
  HandBackDeps & {
    /** Where the heartbeat opens connections of its own: to PostgreSQL itself, past what shares connections out. */
    direct: Sql;
    clock: Clock;
    log: Log;
    settings: LeaseSettings;
  };

export class Ownership implements Running {
  readonly #deps: Deps;
  readonly #otherWorkers: OtherWorkers;
  readonly #heartbeat: Heartbeat;
  /** Apart from the heartbeat: a look may wait for the lock of a row. */
  readonly #line: Lifeline;
  readonly #owned: OwnedShards;
  readonly crashCounts: CrashCounts;
  /** By the stop: how many shards. */
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
    this.#heartbeat = new Heartbeat(deps);
    this.#line = new Lifeline(deps.direct, leaseMs);
    this.#handBack = new HandBack({
      ...deps,
      release: async (shards) => {
        this.#owned.remove(shards, 'returned');
        await this.#line.ask((sql) => releaseShards(sql, workerId, shards));
      },
      onFinished: () => this.#owned.noteChange(),
    });
  }

  start(): void {
    this.#loop();
    // The owner stops by itself at lease − margin, also when its heartbeat hangs in a dead connection.
    this.#watchdog = setInterval(() => this.#suspendWhenExpired(), Math.max(20, this.#deps.settings.leaseMarginMs / 4));
  }

  /** The fence to record under; undefined where the shard is not shards. */
  fenceOf(shard: number): number | undefined {
    return this.#owned.fenceOf(shard);
  }

  /** The same, also where the shard was given up for silence and nobody is known to have it. */
  readonly lastFenceOf = (shard: number): number | undefined => this.#owned.lastFenceOf(shard);

  /** Whether new work of the shard is ownRows: shards, and not on its way back. */
  owns(shard: number): boolean {
    return this.#owned.fenceOf(shard) !== undefined && !this.#handBack.inProgress.has(shard);
  }

  /** All that `owns` says yes to. */
  owned(): number[] {
    return this.#owned.shards.filter((shard) => this.owns(shard));
  }

  /** Whether our own beat was confirmed recently enough that no rival can have taken over. */
  mayAct(): boolean {
    return this.#heartbeat.isValid();
  }

  /** Another worker turned out to have the shard. Nothing is lost where that was told of an earlier holding of ownRows. */
  lost(shard: number, fence: number): void {
    if (this.lastFenceOf(shard) === fence) this.#owned.remove([shard], 'fenced');
  }

  /** Keeps what it has until `stop`, and neither takes more nor hands back some of it. */
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
      await this.#line.ask((sql) => releaseShards(sql, settings.workerId, all));
      this.handedBack = shards.length;
      await this.#line.ask((sql) => removeWorkers(sql, [settings.workerId]));
    } catch (error) {
      log.warn({ err: error }, 'the shards could not be handed back; they are free when the lease ends');
    }
    await Promise.all([this.#heartbeat.stop(), this.#line.stop()]);
  }

  /** A beat, and after each that is confirmed a look, unless the one before is still under way. */
  #loop(): void {
    this.#beating = this.#heartbeat
      .beat(() => this.#suspendWhenExpired())
      .then(() => {
        this.#refreshing ??= this.#refresh()
          .catch((error: unknown) => this.#logFailure(error))
          .finally(() => (this.#refreshing = undefined));
      })
      .catch((error: unknown) => this.#logFailure(error))
      .then(() => {
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#loop(), this.#deps.settings.beatMs);
      });
  }

  #logFailure(error: unknown): void {
    if (isUnavailable(error))
      this.#deps.log.warn({ reason: String(error) }, 'the database is away; the lease runs out');
    else this.#deps.log.error({ err: error }, 'a heartbeat failed');
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#deps;
    const { changes } = this.#owned;
    const requestedAtMs = clock.monotonicMs();
    const [workers, leases] = await this.#line.ask(look);
    this.#otherWorkers.observe(workers, leases, { requestedAtMs, nowMs: clock.monotonicMs() });
    // Something was lost or handed back while the list was read: it may show what is no longer so. The next look is new.
    if (changes !== this.#owned.changes || this.#isStopped || !this.mayAct()) return;
    await this.#reconcile(leases);
    if (!this.#isStopping) await this.#balance(leases);
  }

  /** What the table says is ownRows against what we hold: a fence that differs means that it changed hands meanwhile. */
  async #reconcile(leases: readonly LeaseRow[]): Promise<void> {
    const self = this.#deps.settings.workerId;
    const ownRows = new Map(leases.filter(({ owner }) => owner === self).map((row) => [row.shard, row]));
    const lost = this.#owned.shards.filter((shard) => ownRows.get(shard)?.fence !== this.#owned.fenceOf(shard));
    this.#owned.remove(lost, 'fenced');
    // TakenShard under a new fence, a shard would refuse the outcomes that a silence left to be recorded under the old one.
    const isBusy = (shard: number) => this.#handBack.inProgress.has(shard) || this.#deps.isRecording(shard);
    const missing = [...ownRows.keys()].filter((shard) => this.fenceOf(shard) === undefined && !isBusy(shard));
    if (missing.length === 0) return;
    const lapses = this.#owned.lapses;
    const taken = await this.#line.ask((sql) => retakeShards(sql, self, missing));
    this.#add(lapses, taken, () => 'own');
  }

  async #balance(leases: readonly LeaseRow[]): Promise<void> {
    const { settings } = this.#deps;
    const dead = this.#otherWorkers.dead();
    const deadIds = new Set(dead.map(({ id }) => id));
    const workers = { self: settings.workerId, live: this.#otherWorkers.live(), dead: deadIds };
    const { take, handBack } = planShards(leases, workers, this.#handBack.inProgress);
    if (take.length > 0) {
      // Committed before the first fetch: whoever had the shard can record nothing any more.
      const request = { shards: take, dead, lockMs: Math.floor(settings.leaseMs / 4) };
      const lapses = this.#owned.lapses;
      const taken = await takeUnlocked((query) => this.#line.ask(query), settings.workerId, request);
      // Nobody died holding what was free, and whoever takes it notes that.
      this.#add(lapses, taken, ({ crashCount }) => (crashCount > 0 ? 'dead' : 'free'));
    }
    if (deadIds.size > 0) await this.#line.ask((sql) => removeWorkers(sql, [...deadIds]));
    await this.crashCounts.resetStable((query) => this.#line.ask(query));
    void this.#handBack.start(handBack);
  }

  #suspendWhenExpired(): void {
    if (!this.mayAct()) this.#owned.remove(this.#owned.shards, 'silent');
  }

  /** Where there was a silence since the query, a rival may have taken over since it was answered: the next look tells. */
  #add(lapses: number, shards: readonly TakenShard[], causeOf: Parameters<OwnedShards['add']>[1]): void {
    if (lapses !== this.#owned.lapses || !this.mayAct()) return;
    this.crashCounts.add(shards);
    this.#owned.add(shards, causeOf);
  }
}
