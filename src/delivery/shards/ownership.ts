/** Which shards this worker owns: beat, look, take what is free or orphaned, hand back what is too many. */
import { isUnavailable, type Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import { SHARDS } from '#kernel/ids.ts';
import type { Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { beat, listLeases, listWorkers, releaseShards, removeWorkers, takeShards, type LeaseRow } from './queries.ts';
import { fairShare, Rivals } from './rivals.ts';

export type LeaseSettings = { workerId: number; leaseMs: number; leaseMarginMs: number; beatMs: number };

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  settings: LeaseSettings;
  onGained: (shards: number[]) => void;
  /** Stop at once: abort what is in flight and forget what is queued. */
  onLost: (shards: number[]) => void;
  /** Take no new work for the shards; resolves when nothing of them is outside the table. */
  drain: (shards: number[]) => Promise<void>;
};

export class Ownership implements Running {
  readonly #deps: Deps;
  readonly #rivals: Rivals;
  readonly #fences = new Map<number, number>();
  readonly #draining = new Set<number>();
  /** Our own monotonic time from which the lease counts. */
  #confirmedAtMs = Number.NEGATIVE_INFINITY;
  #isStopped = false;
  /** Rises with everything that is gained, lost or handed back. */
  #changes = 0;
  #timer: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#rivals = new Rivals(deps.settings.workerId, deps.settings.leaseMs);
  }

  start(): void {
    const { settings } = this.#deps;
    this.#loop();
    // The owner stops by itself at lease − margin, also when its heartbeat hangs in a dead connection.
    this.#watch = setInterval(() => this.#suspendWhenSilent(), Math.max(20, settings.leaseMarginMs / 4));
  }

  /** The fence to record under; undefined where the shard is not held. */
  fenceOf(shard: number): number | undefined {
    return this.#fences.get(shard);
  }

  /** Whether new work of the shard is ours: held, and not on its way back. */
  owns(shard: number): boolean {
    return this.#fences.has(shard) && !this.#draining.has(shard);
  }

  /** All that `owns` says yes to. */
  owned(): number[] {
    return [...this.#fences.keys()].filter((shard) => this.owns(shard));
  }

  /** Whether our own beat was confirmed recently enough that no rival can have taken over. */
  mayAct(): boolean {
    const { clock, settings } = this.#deps;
    return clock.monotonicMs() < this.#confirmedAtMs + settings.leaseMs - settings.leaseMarginMs;
  }

  /** Another worker turned out to have the shard. */
  lost(shard: number): void {
    this.#forget([shard]);
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watch);
    await this.#running;
    this.#forget([...this.#fences.keys()]);
    const { sql, log, settings } = this.#deps;
    const all = Array.from({ length: SHARDS }, (_, shard) => shard);
    try {
      await releaseShards(sql, settings.workerId, all);
      await removeWorkers(sql, [settings.workerId]);
    } catch (error) {
      log.warn({ reason: String(error) }, 'the shards could not be handed back; they are free when the lease ends');
    }
  }

  #loop(): void {
    this.#running = this.#tick()
      .catch((error: unknown) => {
        const { log } = this.#deps;
        if (isUnavailable(error)) log.warn({ reason: String(error) }, 'the database is away; the lease runs out');
        else log.error({ err: error }, 'a heartbeat failed');
      })
      .then(() => {
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#loop(), this.#deps.settings.beatMs);
      });
  }

  async #tick(): Promise<void> {
    const { sql, clock, settings } = this.#deps;
    // The lease counts from before the statement was sent: a rival saw the new counter no earlier than that.
    const askedAtMs = clock.monotonicMs();
    await beat(sql, settings.workerId, clock.now());
    this.#suspendWhenSilent();
    this.#confirmedAtMs = askedAtMs;
    const changes = this.#changes;
    const [workers, leases] = await Promise.all([listWorkers(sql), listLeases(sql)]);
    this.#rivals.observe(workers, clock.monotonicMs());
    // Something was lost or handed back while the list was read: it may show what is no longer so. The next beat looks again.
    if (changes !== this.#changes) return;
    this.#reconcile(leases);
    await this.#balance(leases);
  }

  /** What the table says is ours against what we hold: a fence that differs means that it changed hands meanwhile. */
  #reconcile(leases: readonly LeaseRow[]): void {
    const self = this.#deps.settings.workerId;
    const ours = new Map(leases.filter(({ owner }) => owner === self).map((row) => [row.shard, row.fence]));
    this.#forget([...this.#fences].filter(([shard, fence]) => ours.get(shard) !== fence).map(([shard]) => shard));
    const gained = [...ours].filter(([shard]) => !this.#fences.has(shard) && !this.#draining.has(shard));
    this.#gain(gained.map(([shard, fence]) => ({ shard, fence })));
  }

  async #balance(leases: readonly LeaseRow[]): Promise<void> {
    const { sql, clock, log, settings } = this.#deps;
    const nowMs = clock.monotonicMs();
    const dead = this.#rivals.dead(nowMs);
    const share = fairShare(SHARDS, this.#rivals.living(nowMs));
    const wanted = leases
      .filter(({ shard, owner }) => (owner === null || dead.includes(owner)) && !this.#draining.has(shard))
      .map(({ shard }) => shard)
      .slice(0, Math.max(0, share - this.#fences.size));
    if (wanted.length > 0) {
      // Committed before the first fetch: whoever had the shard can record nothing any more.
      const taken = await takeShards(sql, settings.workerId, wanted, dead);
      this.#gain(taken);
      log.info({ taken: taken.length, held: this.#fences.size, dead: dead.length }, 'took shards');
    } else if (dead.length > 0) {
      await removeWorkers(sql, dead);
    }
    const surplus = [...this.#fences.keys()].filter((shard) => !this.#draining.has(shard)).slice(share);
    if (surplus.length > 0) {
      this.#handBack(surplus).catch((error: unknown) => log.warn({ err: error }, 'shards could not be handed back'));
    }
  }

  async #handBack(shards: number[]): Promise<void> {
    for (const shard of shards) this.#draining.add(shard);
    try {
      await this.#deps.drain(shards);
      this.#forget(shards);
      await releaseShards(this.#deps.sql, this.#deps.settings.workerId, shards);
    } finally {
      this.#changes += 1;
      for (const shard of shards) this.#draining.delete(shard);
    }
  }

  #suspendWhenSilent(): void {
    if (this.#fences.size > 0 && !this.mayAct()) this.#forget([...this.#fences.keys()]);
  }

  #gain(shards: readonly { shard: number; fence: number }[]): void {
    this.#changes += 1;
    for (const { shard, fence } of shards) this.#fences.set(shard, fence);
    if (shards.length > 0) this.#deps.onGained(shards.map(({ shard }) => shard));
  }

  #forget(shards: readonly number[]): void {
    const held = shards.filter((shard) => this.#fences.delete(shard));
    this.#changes += held.length;
    if (held.length > 0) this.#deps.onLost(held);
  }
}
