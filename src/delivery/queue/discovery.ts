/**
 * Finds lanes with work by polling the table: after a take-over, after notifications may have been missed, and
 * periodically. If more webhooks have work than lanes are allowed, the rest stay in the table, and each scan resumes
 * where the previous one ran out of places.
 */
import { setImmediate as yieldToOthers, setTimeout as wait } from 'node:timers/promises';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { SHARDS } from '#core/ids.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import { reconcile } from './reconcile.ts';
import { discoverLanes, type Head } from './queue-sql.ts';

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  lanes: Lanes;
  owns: (shard: number) => boolean;
  /** Schedules the lane and enqueues it if it can send. */
  activate: (lane: Lane) => void;
  /** Loads changed settings of the lane again. */
  reload: (lane: Lane) => void;
  /** Ends expired deliveries of a pull webhook, in the background. */
  endUnfetched: (shard: number, webhookId: number) => void;
  /** Lanes were evicted. */
  onEvicted: () => void;
};

const ROUND_MS = 30_000;
/**
 * Interval of short rounds, while some webhooks never had a place. With 30 s, a responsive webhook waited 180 s behind
 * 100,000 endpoints that hang.
 */
const SHORT_ROUND_MS = 1_000;
/**
 * Interval at which lanes without work free their places during short rounds. At the interval of a round, places were
 * idle for 2 s.
 */
const SWEEP_MS = 200;
/**
 * Deliveries that are due later are found by a later scan, so that 100,000 deferred deliveries do not need a lane each.
 */
const HORIZON_MS = 2 * ROUND_MS;
/** Lanes per statement: about 10 ms of database time. */
const BATCH_LANES = 1_000;
const RETRY_MS = 500;

export class Discovery {
  readonly #deps: Deps;
  /** Shards to scan, in order of request; one at a time, so that the other connections stay free for deliveries. */
  readonly #requested = new Set<number>();
  /**
   * Per shard, the webhook id after which a webhook found no place and the next scan resumes. The shard that has waited
   * longest comes first.
   */
  readonly #resumeAfter = new Map<number, number>();
  /** At least one webhook without a lane has not had one yet. */
  #hasUnplaced = false;
  #isShortRound = false;
  #isRunning = false;
  #isStopped = false;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  start(): void {
    const { lanes } = this.#deps;
    this.#timers.push(
      setInterval(() => this.runRound(), ROUND_MS),
      setInterval(() => this.#shortRound(() => this.#evictIdle()), SHORT_ROUND_MS),
      setInterval(() => this.#shortRound(() => lanes.sweep()), SWEEP_MS),
    );
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#requested.clear();
  }

  /** Requests a scan of the shards and ends a short round. */
  scanShards(shards: Iterable<number>): void {
    this.#isShortRound = false;
    this.#request(shards);
  }

  scanAll(): void {
    const { lanes } = this.#deps;
    lanes.sweep();
    // Reads the settings of inactive webhooks again: a missed notification must not block a webhook for ever.
    for (const lane of lanes.all()) if (lane.target?.isActive === false) lane.forgetTarget();
    this.scanShards(this.#shardsInOrder());
  }

  /** Runs every 30 s: evicts idle lanes and scans all owned shards. */
  runRound(): void {
    this.#evictIdle();
    this.scanAll();
  }

  #evictIdle(): void {
    const { lanes, clock, onEvicted } = this.#deps;
    if (lanes.evictIdle(clock.monotonicMs(), this.#resumeAfter.size > 0) > 0) onEvicted();
  }

  /** Frees places and scans again while some webhooks never had a place, so that each gets one soon. */
  #shortRound(freePlaces: () => void): void {
    if (!this.#hasUnplaced || this.#isRunning) return;
    freePlaces();
    if (!this.#deps.lanes.isHalfEmpty) return;
    this.#isShortRound = true;
    this.#request(this.#shardsInOrder());
  }

  /** Returns all shards, beginning with the one that has waited longest for a place. */
  #shardsInOrder(): number[] {
    const [from = 0] = this.#resumeAfter.keys();
    this.#hasUnplaced = false;
    return Array.from({ length: SHARDS }, (_, index) => (from + index) % SHARDS);
  }

  #request(shards: Iterable<number>): void {
    for (const shard of shards) this.#requested.add(shard);
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (const shard of this.#requested) {
      this.#requested.delete(shard);
      if (this.#deps.owns(shard)) await this.#tryShard(shard);
      else this.#resumeAfter.delete(shard);
      // The remaining shards are scanned when places are free, and in each regular round.
      if (this.#isShortRound && this.#hasUnplaced) this.#requested.clear();
    }
    this.#isRunning = false;
  }

  /** Scans a shard. After an error it is requested again, without delaying other shards. */
  async #tryShard(shard: number): Promise<void> {
    try {
      await this.#discover(shard);
    } catch (error) {
      this.#deps.log.warn({ shard, reason: String(error) }, 'discovery failed; retrying');
      const again = setTimeout(() => !this.#isStopped && this.#request([shard]), RETRY_MS);
      again.unref();
      // The database is unavailable, so the other shards would fail too.
      if (isUnavailable(error)) await wait(RETRY_MS, undefined, { ref: false });
    }
  }

  async #discover(shard: number): Promise<void> {
    const from = this.#resumeAfter.get(shard) ?? 0;
    this.#resumeAfter.delete(shard);
    await this.#scan(shard, from, Number.POSITIVE_INFINITY);
    if (from > 0) await this.#scan(shard, 0, from);
    if (!this.#isShortRound) await reconcile(this.#deps, shard);
  }

  /** Scans the webhooks with ids after `from`, up to `to`. */
  async #scan(shard: number, from: number, to: number): Promise<void> {
    let heads: Head[];
    let after = from;
    do {
      heads = await discoverLanes(this.#deps.sql, shard, after, BATCH_LANES);
      // The shard may have been lost during the read.
      if (!this.#deps.owns(shard)) return;
      for (const head of heads) {
        const { webhookId, dueAt } = head;
        if (dueAt === null) this.#deps.endUnfetched(shard, webhookId);
        else if (webhookId <= to && !this.#place(shard, { ...head, dueAt })) this.#resumeLater(shard, after);
        after = head.webhookId;
      }
      await yieldToOthers();
    } while (heads.length === BATCH_LANES && after < to);
  }

  /** Remembers that a webhook after this id found no place. */
  #resumeLater(shard: number, after: number): void {
    if (!this.#resumeAfter.has(shard)) this.#resumeAfter.set(shard, after);
  }

  /**
   * Gives a lane to the webhook of `head`, its earliest delivery. Returns false if it needs a place and none is free.
   */
  #place(shard: number, head: Head & { dueAt: Date }): boolean {
    const { clock, lanes, activate } = this.#deps;
    const dueAtMs = head.dueAt.getTime();
    const waitMs = dueAtMs - clock.now().getTime();
    if (waitMs > HORIZON_MS && lanes.find(shard, head.webhookId) === undefined) return true;
    const place = lanes.placementOf(shard, head.webhookId, head.hasSucceeded);
    if (place === 'full') this.#hasUnplaced = true;
    if (place !== 'lane') return false;
    const lane = lanes.get(shard, head.webhookId);
    if (waitMs > 0) lane.deliveries.wakeAtMs = Math.min(lane.deliveries.wakeAtMs, dueAtMs);
    // A lane that has its earliest delivery in memory needs no fetch; missing later ones are fetched in turn.
    else if (!lane.deliveries.has(head.id)) lane.deliveries.markIncomplete();
    activate(lane);
    return true;
  }
}
