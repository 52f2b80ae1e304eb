/** Which shards this worker owns: beat, look, take what is free or orphaned, hand back what is too many. */
import { Lifeline } from '#db/lifeline.ts';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { SHARDS } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { look, releaseShards, removeWorkers, retakeShards, type LeaseRow } from './leases-sql.ts';
import { Deaths } from './crash-count.ts';
import { HandBack, type HandBackDeps } from './hand-back.ts';
import { Heartbeat, type LeaseSettings } from './heartbeat.ts';
import { Holdings, type HoldingsDeps, type Taken } from './owned-shards.ts';
import { Rivals } from './other-workers.ts';
import { planOf } from './share.ts';
import { takeUnlocked } from './take.ts';

type Deps = HoldingsDeps &
  HandBackDeps & {
    /** Where the heartbeat opens connections of its own: to PostgreSQL itself, past what shares connections out. */
    direct: Sql;
    clock: Clock;
    log: Log;
    settings: LeaseSettings;
  };

export class Ownership implements Running {
  readonly #deps: Deps;
  readonly #rivals: Rivals;
  readonly #heartbeat: Heartbeat;
  /** Apart from the heartbeat: a look may wait for the lock of a row. */
  readonly #line: Lifeline;
  readonly #held: Holdings;
  readonly deaths: Deaths;
  /** By the stop: how many shards. */
  handedBack = 0;
  readonly #handBack: HandBack;
  #isStopping = false;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  #looking: Promise<void> | undefined;

  constructor(deps: Deps) {
    const { workerId, leaseMs } = deps.settings;
    this.#deps = deps;
    this.deaths = new Deaths(workerId, deps.clock);
    this.#held = new Holdings(deps);
    this.#rivals = new Rivals(workerId, leaseMs);
    this.#heartbeat = new Heartbeat(deps);
    this.#line = new Lifeline(deps.direct, leaseMs);
    this.#handBack = new HandBack({
      ...deps,
      release: async (shards) => {
        this.#held.lose(shards, 'returned');
        await this.#line.ask((sql) => releaseShards(sql, workerId, shards));
      },
      onSettled: () => this.#held.touch(),
    });
  }

  start(): void {
    this.#loop();
    // The owner stops by itself at lease − margin, also when its heartbeat hangs in a dead connection.
    this.#watch = setInterval(() => this.#suspendWhenSilent(), Math.max(20, this.#deps.settings.leaseMarginMs / 4));
  }

  /** The fence to record under; undefined where the shard is not held. */
  fenceOf(shard: number): number | undefined {
    return this.#held.fenceOf(shard);
  }

  /** The same, also where the shard was given up for silence and nobody is known to have it. */
  readonly lastFenceOf = (shard: number): number | undefined => this.#held.lastFenceOf(shard);

  /** Whether new work of the shard is ours: held, and not on its way back. */
  owns(shard: number): boolean {
    return this.#held.fenceOf(shard) !== undefined && !this.#handBack.underWay.has(shard);
  }

  /** All that `owns` says yes to. */
  owned(): number[] {
    return this.#held.shards.filter((shard) => this.owns(shard));
  }

  /** Whether our own beat was confirmed recently enough that no rival can have taken over. */
  mayAct(): boolean {
    return this.#heartbeat.isSure();
  }

  /** Another worker turned out to have the shard. Nothing is lost where that was told of an earlier holding of ours. */
  lost(shard: number, fence: number): void {
    if (this.lastFenceOf(shard) === fence) this.#held.lose([shard], 'fenced');
  }

  /** Keeps what it has until `stop`, and neither takes more nor hands back some of it. */
  takeNoMore(): void {
    this.#isStopping = true;
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watch);
    await Promise.all([this.#beating, this.#looking]);
    const held = this.#held.shards;
    const all = Array.from({ length: SHARDS }, (_, shard) => shard);
    this.#held.lose(all, 'returned');
    const { log, settings } = this.#deps;
    try {
      await this.#line.ask((sql) => releaseShards(sql, settings.workerId, all));
      this.handedBack = held.length;
      await this.#line.ask((sql) => removeWorkers(sql, [settings.workerId]));
    } catch (error) {
      log.warn({ err: error }, 'the shards could not be handed back; they are free when the lease ends');
    }
    await Promise.all([this.#heartbeat.stop(), this.#line.stop()]);
  }

  /** A beat, and after each that is confirmed a look, unless the one before is still under way. */
  #loop(): void {
    this.#beating = this.#heartbeat
      .beat(() => this.#suspendWhenSilent())
      .then(() => {
        this.#looking ??= this.#look()
          .catch((error: unknown) => this.#complain(error))
          .finally(() => (this.#looking = undefined));
      })
      .catch((error: unknown) => this.#complain(error))
      .then(() => {
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#loop(), this.#deps.settings.beatMs);
      });
  }

  #complain(error: unknown): void {
    if (isUnavailable(error))
      this.#deps.log.warn({ reason: String(error) }, 'the database is away; the lease runs out');
    else this.#deps.log.error({ err: error }, 'a heartbeat failed');
  }

  async #look(): Promise<void> {
    const { clock } = this.#deps;
    const { changes } = this.#held;
    const askedAtMs = clock.monotonicMs();
    const [workers, leases] = await this.#line.ask(look);
    this.#rivals.observe(workers, leases, { askedAtMs, nowMs: clock.monotonicMs() });
    // Something was lost or handed back while the list was read: it may show what is no longer so. The next look is new.
    if (changes !== this.#held.changes || this.#isStopped || !this.mayAct()) return;
    await this.#reconcile(leases);
    if (!this.#isStopping) await this.#balance(leases);
  }

  /** What the table says is ours against what we hold: a fence that differs means that it changed hands meanwhile. */
  async #reconcile(leases: readonly LeaseRow[]): Promise<void> {
    const self = this.#deps.settings.workerId;
    const ours = new Map(leases.filter(({ owner }) => owner === self).map((row) => [row.shard, row]));
    const lost = this.#held.shards.filter((shard) => ours.get(shard)?.fence !== this.#held.fenceOf(shard));
    this.#held.lose(lost, 'fenced');
    // Taken under a new fence, a shard would refuse the outcomes that a silence left to be recorded under the old one.
    const isBusy = (shard: number) => this.#handBack.underWay.has(shard) || this.#deps.isRecording(shard);
    const again = [...ours.keys()].filter((shard) => this.fenceOf(shard) === undefined && !isBusy(shard));
    if (again.length === 0) return;
    const silences = this.#held.silences;
    const taken = await this.#line.ask((sql) => retakeShards(sql, self, again));
    this.#gain(silences, taken, () => 'own');
  }

  async #balance(leases: readonly LeaseRow[]): Promise<void> {
    const { settings } = this.#deps;
    const dead = this.#rivals.dead();
    const gone = new Set(dead.map(({ id }) => id));
    const who = { self: settings.workerId, living: this.#rivals.living(), dead: gone };
    const { take, handBack } = planOf(leases, who, this.#handBack.underWay);
    if (take.length > 0) {
      // Committed before the first fetch: whoever had the shard can record nothing any more.
      const wanted = { shards: take, dead, lockMs: Math.floor(settings.leaseMs / 4) };
      const silences = this.#held.silences;
      const taken = await takeUnlocked((question) => this.#line.ask(question), settings.workerId, wanted);
      // Nobody died holding what was free, and whoever takes it notes that.
      this.#gain(silences, taken, ({ deaths }) => (deaths > 0 ? 'dead' : 'free'));
    }
    if (gone.size > 0) await this.#line.ask((sql) => removeWorkers(sql, [...gone]));
    await this.deaths.forgive((question) => this.#line.ask(question));
    void this.#handBack.begin(handBack);
  }

  #suspendWhenSilent(): void {
    if (!this.mayAct()) this.#held.lose(this.#held.shards, 'silent');
  }

  /** Where there was a silence since the question, a rival may have taken over since it was answered: the next look tells. */
  #gain(silences: number, shards: readonly Taken[], causeOf: Parameters<Holdings['gain']>[1]): void {
    if (silences !== this.#held.silences || !this.mayAct()) return;
    this.deaths.gained(shards);
    this.#held.gain(shards, causeOf);
  }
}
