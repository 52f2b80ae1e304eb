/** Fills lanes from the table: settings of their webhooks, rows of `delivery`, bodies of events. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sealer } from '#db/seal.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Bodies } from '../attempt/bodies.ts';
import { endOldEpochBatches, noteOldEpochs, type OldEpochDeps } from './disabled-epochs.ts';
import type { Lane } from './lane.ts';
import { readAhead } from './read-ahead.ts';
import { fetchLanes } from './queue-sql.ts';
import { loadTargets } from '../attempt/target-sql.ts';
import { NO_BACKOFF, fromStored, momentOf } from '../policy/backoff.ts';
import { UNKNOWN } from '../policy/policy.ts';
import { targetOf, UNUSABLE, type Target, type TargetRow } from '../attempt/target.ts';
import { Unusable } from './unusable.ts';

type Deps = OldEpochDeps & {
  sealer: Sealer;
  bodies: Bodies;
  /** The stored state of the webhook requires that it is disabled. */
  onPendingDisable: (lane: Lane, epoch: number) => void;
  /** The lane may have something to send now. */
  onFilled: (lane: Lane) => void;
};

/** Shards that are fetched for at once; the others wait. */
const MAX_SHARDS = 4;
/**
 * Additional shards for lanes that have deliveries to send, so that their settings do not wait behind 100,000 lanes
 * with a backlog.
 */
const MAX_URGENT_SHARDS = 2;
const BATCH_LANES = 50;
const RETRY_MS = 500;

/** Waiting lanes by shard, and how many shards are being served. */
type FillQueue = { readonly lanes: Map<number, Set<Lane>>; readonly maxShards: number; activeShards: number };

const isOpen = (lane: Lane): boolean => !lane.isClosed;

export class Fetcher {
  readonly #deps: Deps;
  readonly #normal: FillQueue = { lanes: new Map(), maxShards: MAX_SHARDS, activeShards: 0 };
  readonly #urgent: FillQueue = { lanes: new Map(), maxShards: MAX_URGENT_SHARDS, activeShards: 0 };
  readonly #activeShards = new Set<number>();
  readonly #unusable: Unusable;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#unusable = new Unusable(deps);
  }

  /**
   * Requests settings or rows for the lane. Requests of one shard share a statement; urgent ones, of lanes with
   * deliveries to send, are served first.
   */
  request(lane: Lane, isUrgent = lane.target === null && lane.deliveries.queued > 0): void {
    if (lane.isClosed || this.#isStopped) return;
    const queue = isUrgent ? this.#urgent : this.#normal;
    const lanes = queue.lanes.get(lane.shard);
    if (lanes === undefined) queue.lanes.set(lane.shard, new Set([lane]));
    else lanes.add(lane);
    this.#serve();
  }

  stop(): void {
    this.#isStopped = true;
    this.#normal.lanes.clear();
    this.#urgent.lanes.clear();
  }

  #serve(): void {
    for (const queue of [this.#urgent, this.#normal]) {
      for (const [shard, lanes] of queue.lanes) {
        if (queue.activeShards >= queue.maxShards) break;
        if (!this.#activeShards.has(shard)) void this.#serveShard(queue, shard, lanes);
      }
    }
  }

  async #serveShard(queue: FillQueue, shard: number, lanes: Set<Lane>): Promise<void> {
    const batch = [...lanes].slice(0, BATCH_LANES);
    for (const lane of batch) lanes.delete(lane);
    // Moves the shard to the end: four shards with permanently full batches would otherwise block all others.
    queue.lanes.delete(shard);
    if (lanes.size > 0) queue.lanes.set(shard, lanes);
    this.#activeShards.add(shard);
    queue.activeShards += 1;
    const open = batch.filter(isOpen);
    try {
      await this.#fill(shard, open);
    } catch (error) {
      // Database errors are retried in `#fill`, so this is an internal error; the next scan requests the lanes again.
      this.#deps.log.error({ err: error, shard }, 'lanes could not be filled');
    } finally {
      this.#activeShards.delete(shard);
      queue.activeShards -= 1;
    }
    this.#serve();
  }

  async #fill(shard: number, lanes: Lane[]): Promise<void> {
    try {
      await this.#loadTargets(shard, lanes);
      for (const lane of lanes) if (await this.#unusable.count(lane)) this.request(lane);
      await this.#fetchRows(shard, lanes);
    } catch (error) {
      return this.#retryFill(shard, lanes, error);
    }
    for (const lane of lanes) {
      if (lane.isClosed) continue;
      if (lane.target === null || lane.needsFetch) this.request(lane);
      this.#deps.onFilled(lane);
    }
  }

  /**
   * Retries after the database was unavailable. After another error, one lane may be the cause, so the batch is split
   * in halves.
   */
  async #retryFill(shard: number, lanes: Lane[], error: unknown): Promise<void> {
    const isDatabaseDown = isUnavailable(error);
    if (!isDatabaseDown && lanes.length > 1) {
      const middle = Math.ceil(lanes.length / 2);
      await this.#fill(shard, lanes.slice(0, middle).filter(isOpen));
      return this.#fill(shard, lanes.slice(middle).filter(isOpen));
    }
    const about = { shard, lanes: lanes.length, reason: String(error) };
    this.#deps.log.warn(about, 'deliveries could not be fetched; retrying');
    const again = wait(RETRY_MS, undefined, { ref: false }).then(() => lanes.forEach((lane) => this.request(lane)));
    if (isDatabaseDown) await again;
  }

  async #loadTargets(shard: number, lanes: readonly Lane[]): Promise<void> {
    const missing = lanes.filter((lane) => lane.target === null);
    if (missing.length === 0) return;
    const { sql } = this.#deps;
    const changes = new Map(missing.map((lane) => [lane, lane.changes]));
    const ids = missing.map((lane) => lane.webhookId);
    const rows = await loadTargets(sql, shard, ids);
    for (const lane of missing) {
      // The webhook changed during the read, so the row may be outdated.
      if (lane.changes !== changes.get(lane)) continue;
      const row = rows.find(({ id }) => id === lane.webhookId);
      lane.target = this.#targetOf(lane, row);
      // Deliveries of an inactive webhook are ended, also those that are not due yet.
      if (!lane.target.isActive) lane.deliveries.markIncomplete();
      if (lane.health?.epoch !== lane.target.epoch) this.#restoreState(lane, lane.target.epoch, row);
      // The pending disable is stored but not executed: by a previous owner that crashed, or by this worker a moment
      // ago.
      if (row?.isPendingDisable === true && lane.pendingDisableEpoch === row.epoch)
        this.#deps.onPendingDisable(lane, row.epoch);
    }
  }

  /**
   * Restores health and backoff from the table; for an epoch that this worker already counts, its own state is newer.
   */
  #restoreState(lane: Lane, epoch: number, row: TargetRow | undefined): void {
    const { consecutiveFailures, firstFailureAt, isWarned, hasSucceeded } = row ?? UNKNOWN;
    lane.health = { epoch, consecutiveFailures, firstFailureAt, isWarned, hasSucceeded };
    lane.startConditions.backoff =
      row === undefined ? NO_BACKOFF : fromStored(row, consecutiveFailures, momentOf(this.#deps.clock));
    lane.pendingDisableEpoch = row?.isPendingDisable === true ? epoch : null;
  }

  /**
   * Returns the target, or `UNUSABLE` if the row cannot be used, which blocks only its own webhook. It is read again
   * every 30 s.
   */
  #targetOf(lane: Lane, row: TargetRow | undefined): Target {
    try {
      const target = targetOf(row, this.#deps.sealer);
      this.#unusable.remove(lane);
      return target;
    } catch (error) {
      this.#unusable.add(lane, error);
      return UNUSABLE;
    }
  }

  async #fetchRows(shard: number, lanes: readonly Lane[]): Promise<void> {
    const candidates = lanes.filter((lane) => lane.needsFetch);
    const fetching = (await endOldEpochBatches(this.#deps, candidates)).filter((lane) => lane.needsFetch);
    if (fetching.length === 0) return;
    const startedMs = this.#deps.clock.now().getTime();
    const fetches = fetching.map((lane) => lane.deliveries.beginFetch(startedMs));
    try {
      const rows = await fetchLanes(
        this.#deps.sql,
        shard,
        fetching.map((lane) => lane.webhookId),
        fetches,
      );
      const byWebhook = Map.groupBy(rows, (row) => row.webhookId);
      const nowMs = this.#deps.clock.now().getTime();
      const sending = new Set(fetching.filter((lane) => lane.target?.isActive === true).map((lane) => lane.webhookId));
      const due = rows.filter((row) => row.dueAt.getTime() <= nowMs && sending.has(row.webhookId));
      await readAhead(this.#deps, shard, due);
      for (const [index, lane] of fetching.entries()) {
        // Deliveries that are not due are taken only to end them; a webhook that changes meanwhile may continue.
        const isInactive = lane.target?.isActive === false && lane.target !== UNUSABLE;
        const until = isInactive ? Number.POSITIVE_INFINITY : nowMs;
        const fetch = fetches[index];
        if (fetch === undefined) continue;
        const found = byWebhook.get(lane.webhookId) ?? [];
        lane.deliveries.endFetch(found, fetch, until);
        noteOldEpochs(lane, found, fetch);
      }
    } catch (error) {
      for (const lane of fetching) lane.deliveries.abandonFetch();
      throw error;
    }
  }
}
