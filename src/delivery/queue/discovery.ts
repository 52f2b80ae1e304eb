/**
 * Finds lanes with work by polling the table: after a take-over, after notifications may have been missed, and
 * periodically. If more webhooks have work than lanes are allowed, the rest stay in the table, and each scan resumes
 * where the previous one ran out of places.
 */
import { setImmediate as yieldToOthers, setTimeout as wait } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import { SHARDS } from '#core/ids.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Ownership } from '../leases/ownership.ts';
import type { Unfetched } from '../pull/pull-streams.ts';
import type { Lane } from './lane.ts';
import type { FetchRequests, Lanes } from './lanes.ts';
import type { Dispatcher } from './dispatcher.ts';
import { discoverLanes, listChanged, listPendingDisables, type Head } from './queue-sql.ts';
import type { ActiveTarget } from '../attempt/delivery-target.ts';

type DiscoveryRuntime = Pick<Runtime, 'sql' | 'clock' | 'pace' | 'log'>;

type DiscoveryParts = {
  lanes: Lanes;
  ownership: Pick<Ownership, 'owns'>;
  /** Ends expired deliveries of pull webhooks, which have no lane. */
  unfetched: Pick<Unfetched, 'end'>;
  requests: Pick<FetchRequests, 'reload'>;
  dispatcher: Pick<Dispatcher, 'send' | 'removeClosed'>;
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
/** Lanes per statement, divided evenly between its shards: about 10 ms of database time. */
const BATCH_LANES = 1_000;
const RETRY_MS = 500;

/** The scan of a shard: the webhooks with ids after `from` first, then the others. */
class ShardScan {
  readonly shard: number;
  readonly #from: number;
  #hasWrapped: boolean;
  /** The webhook id after which the next statement begins. */
  after: number;
  isFinished = false;

  constructor(shard: number, from: number) {
    this.shard = shard;
    this.#from = from;
    this.#hasWrapped = from === 0;
    this.after = from;
  }

  /** Returns whether the webhook is found here for the first time, and continues after it. */
  pass(webhookId: number): boolean {
    this.after = webhookId;
    return !this.#hasWrapped || this.#from === 0 || webhookId <= this.#from;
  }

  /** Ends a statement. `hasMore`: it returned as many webhooks as it could. */
  endRead(hasMore: boolean): void {
    if (this.#hasWrapped) this.isFinished = !hasMore || (this.#from > 0 && this.after >= this.#from);
    else if (!hasMore) [this.#hasWrapped, this.after] = [true, 0];
  }
}

export class Discovery {
  readonly #runtime: DiscoveryRuntime;
  readonly #parts: DiscoveryParts;
  /** Shards to scan, in order of request. One statement runs at a time, so that the other connections stay free. */
  readonly #requested = new Set<number>();
  /** Per shard, the webhook id after which a webhook found no place and the next scan resumes. */
  readonly #resumeAfter = new Map<number, number>();
  /** The shard after the one that got the last place: it comes first in the next scan. */
  #firstShard = 0;
  /** At least one webhook without a lane has not had one yet. */
  #hasUnplaced = false;
  #isShortRound = false;
  #isRunning = false;
  readonly #stopping = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(runtime: DiscoveryRuntime, parts: DiscoveryParts) {
    this.#runtime = runtime;
    this.#parts = parts;
  }

  start(): void {
    const { lanes } = this.#parts;
    void this.#runtime.pace.repeat(ROUND_MS, () => this.runRound(), this.#stopping.signal);
    this.#timers.push(
      setInterval(() => this.#shortRound(() => this.#evictIdle()), SHORT_ROUND_MS),
      setInterval(() => this.#shortRound(() => lanes.sweep()), SWEEP_MS),
    );
  }

  stop(): void {
    this.#stopping.abort();
    for (const timer of this.#timers) clearInterval(timer);
    this.#requested.clear();
  }

  /** Requests a scan of the shards and ends a short round. */
  scanShards(shards: Iterable<number>): void {
    this.#isShortRound = false;
    this.#request(shards);
  }

  scanAll(): void {
    const { lanes, requests } = this.#parts;
    lanes.sweep();
    // Reads the settings of inactive webhooks again: a missed notification must not block a webhook for ever.
    for (const lane of lanes.all()) if (lane.target?.isActive === false) requests.reload(lane);
    this.scanShards(this.#shardsInOrder());
  }

  /** Runs every 30 s: evicts idle lanes and scans all owned shards. */
  runRound(): void {
    this.#evictIdle();
    this.scanAll();
  }

  #evictIdle(): void {
    const { lanes, dispatcher } = this.#parts;
    const nowMs = this.#runtime.clock.monotonicMs();
    if (lanes.evictIdle(nowMs, this.#resumeAfter.size > 0) > 0) dispatcher.removeClosed();
  }

  /** Frees places and scans again while some webhooks never had a place, so that each gets one soon. */
  #shortRound(freePlaces: () => void): void {
    if (!this.#hasUnplaced || this.#isRunning) return;
    freePlaces();
    if (!this.#parts.lanes.isHalfEmpty) return;
    this.#isShortRound = true;
    this.#request(this.#shardsInOrder());
  }

  #shardsInOrder(): number[] {
    this.#hasUnplaced = false;
    return Array.from({ length: SHARDS }, (_, index) => (this.#firstShard + index) % SHARDS);
  }

  #request(shards: Iterable<number>): void {
    for (const shard of shards) this.#requested.add(shard);
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#requested.size > 0) await this.#scanRequested();
    this.#isRunning = false;
  }

  /**
   * Scans the requested shards, also those that are requested meanwhile, some webhooks of each per statement. One shard
   * after the other, the first deliveries of the last shard waited for 100,000 webhooks of the others.
   */
  async #scanRequested(): Promise<void> {
    const scans = new Map<number, ShardScan>();
    for (let open = this.#openScans(scans); open.length > 0; open = this.#openScans(scans)) {
      await this.#read(open);
      await yieldToOthers();
      if (this.#stopping.signal.aborted) return;
      // The remaining webhooks are found when places are free, and in each regular round.
      if (this.#isShortRound && this.#hasUnplaced) return this.#endShortRound(open);
    }
    if (!this.#isShortRound) await this.#reconcile([...scans.keys()]);
  }

  /** Begins the scans of requested shards, and returns all that are not finished. */
  #openScans(scans: Map<number, ShardScan>): ShardScan[] {
    for (const shard of this.#requested) {
      // A shard requested during its scan is scanned again last; otherwise it could starve the other shards.
      if (scans.has(shard)) continue;
      this.#requested.delete(shard);
      scans.set(shard, new ShardScan(shard, this.#resumeAfter.get(shard) ?? 0));
      this.#resumeAfter.delete(shard);
    }
    return [...scans.values()].filter(({ shard, isFinished }) => !isFinished && this.#parts.ownership.owns(shard));
  }

  #endShortRound(scans: readonly ShardScan[]): void {
    for (const { shard, after, isFinished } of scans) if (!isFinished) this.#resumeLater(shard, after);
    this.#requested.clear();
  }

  /**
   * Reads the next webhooks of the shards. After an error in one of them, halves find the shard, which is requested
   * again without delaying the others.
   */
  async #read(scans: readonly ShardScan[]): Promise<void> {
    try {
      await this.#discover(scans);
    } catch (error) {
      if (!isUnavailable(error) && scans.length > 1) {
        const middle = Math.ceil(scans.length / 2);
        await this.#read(scans.slice(0, middle));
        return this.#read(scans.slice(middle));
      }
      for (const scan of scans) scan.isFinished = true;
      await this.#retry(
        scans.map(({ shard }) => shard),
        error,
      );
    }
  }

  async #discover(scans: readonly ShardScan[]): Promise<void> {
    const limit = Math.ceil(BATCH_LANES / scans.length);
    const heads = Map.groupBy(await discoverLanes(this.#runtime.sql, scans, limit), ({ shard }) => shard);
    // The first webhook of each shard, then the second, so that the shards share the places evenly.
    for (let n = 0; n < limit; n += 1) {
      for (const scan of scans) {
        const head = heads.get(scan.shard)?.[n];
        // The shard may have been lost during the read.
        if (head !== undefined && this.#parts.ownership.owns(scan.shard)) this.#pass(scan, head);
      }
    }
    for (const scan of scans) scan.endRead(heads.get(scan.shard)?.length === limit);
  }

  /** Gives a lane to the next webhook of the scan. */
  #pass(scan: ShardScan, head: Head): void {
    const { shard, after } = scan;
    const { webhookId, dueAt } = head;
    const isNew = scan.pass(webhookId);
    // Each round finds what is pending, also what is due later, so that the process is not quiet meanwhile.
    if (dueAt !== null) void this.#runtime.pace.work();
    if (dueAt === null) this.#parts.unfetched.end(shard, webhookId);
    else if (isNew && !this.#place({ ...head, dueAt })) this.#resumeLater(shard, after);
  }

  async #reconcile(shards: readonly number[]): Promise<void> {
    const owned = shards.filter((shard) => this.#parts.ownership.owns(shard));
    try {
      if (owned.length > 0) await reconcile(this.#runtime, this.#parts, owned);
    } catch (error) {
      await this.#retry(owned, error);
    }
  }

  /** Requests the shards again after an error; while the database is unavailable, the other shards would fail too. */
  async #retry(shards: readonly number[], error: unknown): Promise<void> {
    this.#runtime.log.warn({ shards, reason: String(error) }, 'discovery failed; retrying');
    void this.#runtime.pace.work();
    const again = setTimeout(() => !this.#stopping.signal.aborted && this.#request(shards), RETRY_MS);
    again.unref();
    if (isUnavailable(error)) await wait(RETRY_MS, undefined, { ref: false });
  }

  /** Stores where the next scan of the shard resumes: there was no lane free for webhooks after this id. */
  #resumeLater(shard: number, after: number): void {
    if (!this.#resumeAfter.has(shard)) this.#resumeAfter.set(shard, after);
  }

  /**
   * Gives a lane to the webhook of `head`, its earliest delivery. Returns false if it needs a place and none is free.
   */
  #place({ shard, webhookId, id, hasSucceeded, dueAt }: Head & { dueAt: Date }): boolean {
    const { lanes, dispatcher } = this.#parts;
    const dueAtMs = dueAt.getTime();
    const waitMs = dueAtMs - this.#runtime.clock.now().getTime();
    if (waitMs > HORIZON_MS && lanes.find(shard, webhookId) === undefined) return true;
    const place = lanes.placementOf(shard, webhookId, hasSucceeded);
    if (place === 'full') this.#hasUnplaced = true;
    if (place !== 'lane') return false;
    const lane = lanes.get(shard, webhookId);
    this.#firstShard = (shard + 1) % SHARDS;
    if (waitMs > 0) lane.deliveries.wakeNoLaterThan(dueAtMs);
    // A lane that has its earliest delivery in memory needs no fetch; missing later ones are fetched in turn.
    else if (!lane.deliveries.has(id)) lane.deliveries.markIncomplete();
    dispatcher.send([lane]);
    return true;
  }
}

type ReconcileParts = Pick<DiscoveryParts, 'lanes' | 'ownership' | 'requests'>;

/** Maximum per shard and scan; the next scan finds the rest, because these are disabled by then. */
const PENDING_DISABLES_MAX = 1_000;

/**
 * Activates lanes with a pending disable that a crashed owner did not execute: reading their settings executes it.
 * Lanes whose health is counted in memory are skipped, because it is newer than the table.
 */
export async function findPendingDisables(
  { sql }: Pick<Runtime, 'sql'>,
  { lanes, ownership, requests }: ReconcileParts,
  shards: readonly number[],
): Promise<void> {
  for (const { shard, webhookId } of await listPendingDisables(sql, shards, PENDING_DISABLES_MAX * shards.length)) {
    // The shard may have been lost during the read.
    if (!ownership.owns(shard) || !lanes.hasCapacityToDisable(shard, webhookId)) continue;
    const lane = lanes.get(shard, webhookId);
    if (lane.health !== null) continue;
    requests.reload(lane);
  }
}

type LoadedLane = readonly [Lane, ActiveTarget];

const isActive = (loaded: readonly [Lane, Lane['target']]): loaded is LoadedLane => loaded[1]?.isActive === true;

/** Reloads lanes of a shard whose settings changed in the table without a notification. */
export async function findStaleSettings(
  { sql }: Pick<Runtime, 'sql'>,
  { lanes, ownership, requests }: ReconcileParts,
  shard: number,
): Promise<void> {
  if (!ownership.owns(shard)) return;
  const all = [...lanes.ofShards([shard])].map((lane) => [lane, lane.target] as const).filter(isActive);
  for (let at = 0; at < all.length; at += BATCH_LANES) {
    const some = all.slice(at, at + BATCH_LANES);
    const read = some.map(([{ webhookId }, { revision, storeDomain }]) => ({ webhookId, revision, storeDomain }));
    const changed = new Set(await listChanged(sql, shard, read));
    // A lane that was read again meanwhile is up to date.
    for (const [lane, target] of some) if (changed.has(lane.webhookId) && lane.target === target) requests.reload(lane);
  }
}

/** Runs both searches. An error is logged and left to the next scan, so that it does not stop discovery. */
async function reconcile(
  runtime: Pick<Runtime, 'sql' | 'log'>,
  parts: ReconcileParts,
  shards: readonly number[],
): Promise<void> {
  const searches = [
    { of: shards, find: () => findPendingDisables(runtime, parts, shards) },
    ...shards.map((shard) => ({ of: [shard], find: () => findStaleSettings(runtime, parts, shard) })),
  ];
  for (const { of, find } of searches) {
    try {
      await find();
    } catch (error) {
      if (isUnavailable(error)) throw error;
      runtime.log.warn({ shards: of, reason: String(error) }, 'reconciliation failed; the next scan retries');
    }
  }
}
