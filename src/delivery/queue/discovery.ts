/**
 * Which lanes have work: looked up in the table on a take-over, after words may have been missed, and from time to time. Of more
 * webhooks than there are places some wait in the table, and each look goes on where the places of the one before ended.
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
  /** The lane may need something: settings, rows, or a look later. */
  activate: (lane: Lane) => void;
  /** The settings of the lane are not as they were read. */
  reload: (lane: Lane) => void;
  /** What the webhook has waits for a listener: ends what none will ever fetch, beside the looking. */
  endUnfetched: (shard: number, webhookId: number) => void;
  /** Lanes were closed to make room. */
  onEvicted: () => void;
};

const ROUND_MS = 30_000;
/**
 * A turn while there are some who never had a place. With half a minute, as it was first, somebody who was well came after
 * 180 s where 100,000 others hung.
 */
const SHORT_ROUND_MS = 1_000;
/** And so often those make room who are done. Each portion of places stood idle for 2 s when they had a turn, too. */
const SWEEP_MS = 200;
/** What is due later than this is found again before: a lane in memory for each of 100,000 deferred deliveries is not needed. */
const HORIZON_MS = 2 * ROUND_MS;
/** Lanes that one statement answers: some 10 ms of the database's time, and less of ours. */
const BATCH_LANES = 1_000;
const RETRY_MS = 500;

export class Discovery {
  readonly #deps: Deps;
  /** In the order in which they were asked for; one after the other, so that live traffic has all other connections. */
  readonly #requested = new Set<number>();
  /** After which webhook of a shard somebody found no place; from there on it is looked next. Who waits longest stands first. */
  readonly #resumeAfter = new Map<number, number>();
  /** Among them are such as never had a place. */
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

  /** Looks for work in the table. A shard that is asked for again while it waits is looked at once. */
  scanShards(shards: Iterable<number>): void {
    this.#isShortRound = false;
    this.#request(shards);
  }

  scanAll(): void {
    const { lanes } = this.#deps;
    lanes.sweep();
    // Settings that say "off" are read again: a word that went missing must not hold a webhook back for ever.
    for (const lane of lanes.all()) if (lane.target?.isActive === false) lane.forgetTarget();
    this.scanShards(this.#shardsInOrder());
  }

  /** Every half a minute: everything is looked for, and those who did nothing meanwhile give their places to others. */
  runRound(): void {
    this.#evictIdle();
    this.scanAll();
  }

  #evictIdle(): void {
    const { lanes, clock, onEvicted } = this.#deps;
    if (lanes.evictIdle(clock.monotonicMs(), this.#resumeAfter.size > 0) > 0) onEvicted();
  }

  /** More often, as long as there are some who never had a place: so everybody soon has one, and most are done with it. */
  #shortRound(freePlaces: () => void): void {
    if (!this.#hasUnplaced || this.#isRunning) return;
    freePlaces();
    if (!this.#deps.lanes.isHalfEmpty) return;
    this.#isShortRound = true;
    this.#request(this.#shardsInOrder());
  }

  /** All shards, beginning where somebody found no place. */
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
      // The others are looked at when there is room again, and every half a minute anyway.
      if (this.#isShortRound && this.#hasUnplaced) this.#requested.clear();
    }
    this.#isRunning = false;
  }

  /** One that fails is asked for again soon, and keeps no other from being looked at. */
  async #tryShard(shard: number): Promise<void> {
    try {
      await this.#discover(shard);
    } catch (error) {
      this.#deps.log.warn({ shard, reason: String(error) }, 'looking for work failed; it is tried again');
      const again = setTimeout(() => !this.#isStopped && this.#request([shard]), RETRY_MS);
      again.unref();
      // Nobody else's turn is any better now.
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

  /** Those after the one webhook, up to the other. */
  async #scan(shard: number, from: number, to: number): Promise<void> {
    let heads: Head[];
    let after = from;
    do {
      heads = await discoverLanes(this.#deps.sql, shard, after, BATCH_LANES);
      // It may have been lost while the table was read.
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

  /** Somebody after that one found no place. */
  #resumeLater(shard: number, after: number): void {
    if (!this.#resumeAfter.has(shard)) this.#resumeAfter.set(shard, after);
  }

  /** `head` is what a webhook has that is due first. Answers whether there was a place for it, if it needs one. */
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
    // A lane that has it in hand has nothing to fetch: what is missing behind it comes to the front in its turn.
    else if (!lane.deliveries.has(head.id)) lane.deliveries.markIncomplete();
    activate(lane);
    return true;
  }
}
