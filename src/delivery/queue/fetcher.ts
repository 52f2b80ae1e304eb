/** Fills lanes from the table: settings of their webhooks, rows of `delivery`, bodies of events. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sealer } from '#db/seal.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Bodies } from '../attempt/bodies.ts';
import { endOldEpochBatches, noteOldEpochs, type OldEpochDeps } from './disabled-epochs.ts';
import type { Lane } from './lane.ts';
import { readAhead } from './read-ahead.ts';
import { fetchLanes, loadTargets } from './queue-sql.ts';
import { NO_BACKOFF, fromStored, momentOf } from '../policy/backoff.ts';
import { UNKNOWN } from '../policy/policy.ts';
import { targetOf, UNUSABLE, type Target, type TargetRow } from './target.ts';

type Deps = OldEpochDeps & {
  sealer: Sealer;
  bodies: Bodies;
  /** The state of the webhook, as the table has it, demands that it is switched off. */
  onPendingDisable: (lane: Lane, epoch: number) => void;
  /** The lane may have something to send now. */
  onFilled: (lane: Lane) => void;
};

/** Shards that are fetched for at once; further ones wait. */
const MAX_SHARDS = 4;
/** And so many beside them for lanes that have something to send: their settings do not wait for 100,000 with a backlog. */
const MAX_URGENT_SHARDS = 2;
const BATCH_LANES = 50;
const RETRY_MS = 500;

/** Lanes that wait, by shard, and how many shards are served. */
type FillQueue = { readonly lanes: Map<number, Set<Lane>>; readonly maxShards: number; activeShards: number };

const isOpen = (lane: Lane): boolean => !lane.isClosed;

export class Fetcher {
  readonly #deps: Deps;
  readonly #normal: FillQueue = { lanes: new Map(), maxShards: MAX_SHARDS, activeShards: 0 };
  readonly #urgent: FillQueue = { lanes: new Map(), maxShards: MAX_URGENT_SHARDS, activeShards: 0 };
  readonly #activeShards = new Set<number>();
  /** Told of in the log, each once: they are read again every half a minute. */
  readonly #unusable = new WeakSet<Lane>();
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * The lane needs its settings, or rows. Lanes of one shard that ask together are served by one statement. Those go first
   * that have something to send, or are about to.
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
    // Behind the others: four shards with ever more than one batch would be served alone.
    queue.lanes.delete(shard);
    if (lanes.size > 0) queue.lanes.set(shard, lanes);
    this.#activeShards.add(shard);
    queue.activeShards += 1;
    const open = batch.filter(isOpen);
    try {
      await this.#fill(shard, open);
    } catch (error) {
      // What reads the database is tried again where it failed: this is a fault of our own, and the next look asks again.
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

  /** Where it is not the database that is away it may be one lane that fails: the others are fed without it. */
  async #retryFill(shard: number, lanes: Lane[], error: unknown): Promise<void> {
    const isDatabaseDown = isUnavailable(error);
    if (!isDatabaseDown && lanes.length > 1) {
      const middle = Math.ceil(lanes.length / 2);
      await this.#fill(shard, lanes.slice(0, middle).filter(isOpen));
      return this.#fill(shard, lanes.slice(middle).filter(isOpen));
    }
    const about = { shard, lanes: lanes.length, reason: String(error) };
    this.#deps.log.warn(about, 'deliveries could not be fetched; trying again');
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
      // Changed while it was being read: what was read may be the old row.
      if (lane.changes !== changes.get(lane)) continue;
      const row = rows.find(({ id }) => id === lane.webhookId);
      lane.target = this.#targetOf(lane, row);
      // A webhook that is off ends all it has, also what is not due yet.
      if (!lane.target.isActive) lane.deliveries.markIncomplete();
      if (lane.health?.epoch !== lane.target.epoch) this.#restoreState(lane, lane.target.epoch, row);
      // Written down, and not done yet: by a predecessor who died in between, or by ourselves just now.
      if (row?.isPendingDisable === true && lane.pendingDisableEpoch === row.epoch)
        this.#deps.onPendingDisable(lane, row.epoch);
    }
  }

  /** What the table knows of the webhook; of an epoch that we count ourselves we know better. */
  #restoreState(lane: Lane, epoch: number, row: TargetRow | undefined): void {
    const { consecutiveFailures, firstFailureAt, isWarned, hasSucceeded } = row ?? UNKNOWN;
    lane.health = { epoch, consecutiveFailures, firstFailureAt, isWarned, hasSucceeded };
    lane.startConditions.backoff =
      row === undefined ? NO_BACKOFF : fromStored(row, consecutiveFailures, momentOf(this.#deps.clock));
    lane.pendingDisableEpoch = row?.isPendingDisable === true ? epoch : null;
  }

  /** A row that cannot be used holds back its own webhook and no other; it is looked at again with everything else. */
  #targetOf(lane: Lane, row: TargetRow | undefined): Target {
    try {
      const target = targetOf(row, this.#deps.sealer);
      this.#unusable.delete(lane);
      return target;
    } catch (error) {
      const about = { err: error, webhook: lane.webhookId };
      if (!this.#unusable.has(lane)) this.#deps.log.error(about, 'the webhook cannot be used: what it has waits');
      this.#unusable.add(lane);
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
        // What is not due yet is taken from a webhook only that is over, to end it: one that changes meanwhile may go on.
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
