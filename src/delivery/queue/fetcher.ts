/** Fills lanes from the table: settings of their webhooks, rows of `delivery`, bodies of events. */
import { setTimeout as wait } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import type { Log } from '#core/log.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Bodies } from '../attempt/bodies.ts';
import { loadTargets } from '../delivery-sql.ts';
import { fencesOf } from '../record/record-sql.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import { Unusable, endOldEpochBatches, noteOldEpochs, type PendingDisables } from './ending.ts';
import { fromStored, momentOf } from '../policy/policy.ts';
import { targetOf, UNUSABLE, type Target, type TargetRow } from '../attempt/delivery-target.ts';
import type { Pending } from '../policy/entry.ts';
import type { Lane, WebhookState } from './lane.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { FetchRequests } from './lanes.ts';
import { fetchLanes, postponeWaiting } from './queue-sql.ts';
import { NONE_POSTPONED, type Postponed } from './loaded-deliveries.ts';

// Keeps the deliveries of one resource in order for webhooks with the ordering `resource`.

/**
 * A delivery waits until the first one of its resource is due, and for at least so long. The end of that one makes it due at once,
 * unless that ends without an attempt (an erasure) or its worker dies: then it waits for so long. With 5 s, a backlog of a resource
 * was checked again as fast as it was sent.
 */
const RECHECK_MS = 30_000;

const isOrdered = ({ target }: Lane): boolean => target?.isActive === true && target.isOrdered;

/**
 * Postpones those of the fetched rows that have to wait for an earlier delivery of their resource. Those that are queued have no
 * earlier pending delivery, also not later: a resource gets its versions in order.
 */
async function postponeInOrder(
  { sql }: Pick<Runtime, 'sql'>,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lanes: readonly Lane[],
  rows: readonly Pending[],
  nowMs: number,
): Promise<Postponed> {
  const ordered = new Map(lanes.filter(isOrdered).map((lane) => [lane.webhookId, lane]));
  if (ordered.size === 0) return NONE_POSTPONED;
  const due = rows.flatMap((row) => {
    const lane = ordered.get(row.webhookId);
    const isNew = lane !== undefined && row.dueAt.getTime() <= nowMs && !lane.deliveries.has(row.id);
    return isNew ? [{ ...row, shard: lane.shard }] : [];
  });
  if (due.length === 0) return NONE_POSTPONED;
  const fences = fencesOf(
    ownership,
    due.map(({ shard }) => shard),
  );
  const checked = await postponeWaiting(sql, ownership.workerId, fences, due, new Date(nowMs + RECHECK_MS));
  const dueAt = new Map(checked.map((row) => [row.id, row.dueAt?.getTime()]));
  return new Map(
    due.flatMap(({ id }) => {
      // Deliveries of a shard that this worker does not own any more are not returned.
      const untilMs = dueAt.has(id) ? dueAt.get(id) : Number.POSITIVE_INFINITY;
      return untilMs === undefined ? [] : [[id, untilMs] as const];
    }),
  );
}

// Loads the bodies of fetched deliveries in one statement, as an optimization.

/**
 * Returns the deliveries round robin: the first one of each webhook, then the second, and so on, so that each webhook can
 * begin.
 */
export function roundRobin(rows: readonly Pending[]): Pending[] {
  const rounds: Pending[][] = [];
  const taken = new Map<number, number>();
  for (const row of rows) {
    const round = taken.get(row.webhookId) ?? 0;
    taken.set(row.webhookId, round + 1);
    (rounds[round] ??= []).push(row);
  }
  return rounds.flat();
}

/** Loads the bodies. After an error each is loaded when it is sent, so that it delays only its own delivery. */
async function readAhead(bodies: Bodies, log: Log, due: readonly Pending[]): Promise<void> {
  try {
    await bodies.load(roundRobin(due));
  } catch (error) {
    if (isUnavailable(error)) throw error;
    log.warn({ reason: String(error) }, 'events could not be loaded together; loading each when it is sent');
  }
}

type FetcherRuntime = Pick<Runtime, 'sql' | 'clock' | 'log' | 'sealer'>;

type FetcherParts = {
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>;
  bodies: Bodies;
  pendingDisables: Pick<PendingDisables, 'request'>;
  requests: FetchRequests;
  /** Sends what the filled lanes have. */
  dispatcher: Pick<Dispatcher, 'send'>;
};

/** Batches that are filled at once. */
const MAX_BATCHES = 4;
/**
 * Additional batches for lanes that have deliveries to send, so that their settings do not wait behind 100,000 lanes
 * with a backlog.
 */
const MAX_URGENT_BATCHES = 2;
/** Lanes of any shards: after a take-over, a batch per shard took three statements for every few lanes. */
const BATCH_LANES = 50;
const RETRY_MS = 500;

/** Requested lanes, and how many batches are being filled. */
type FillQueue = { readonly lanes: Set<Lane>; readonly maxBatches: number; activeBatches: number };

const isOpen = (lane: Lane): boolean => !lane.isClosed;
const shardOfLane = ({ shard }: Lane): number => shard;
const webhookOf = ({ webhookId }: Lane): number => webhookId;
const needsFetch = (lane: Lane): boolean => lane.needsFetch;

/** Returns whether the lane ends deliveries in statements of 50 ms, for which the others of its batch do not wait. */
const hasOwnStatements = ({ target, oldEpochsFrom }: Lane): boolean =>
  target === UNUSABLE || oldEpochsFrom instanceof Date;

export class Fetcher {
  readonly #runtime: FetcherRuntime;
  readonly #parts: FetcherParts;
  readonly #queues: readonly FillQueue[];
  /** Lanes of running batches. Requested again, a lane waits for the end of its batch. */
  readonly #activeLanes = new Set<Lane>();
  readonly #unusable: Unusable;
  #isStopped = false;

  constructor(runtime: FetcherRuntime, parts: FetcherParts) {
    this.#runtime = runtime;
    this.#parts = parts;
    this.#unusable = new Unusable(runtime, parts.ownership);
    const { urgent, normal } = parts.requests;
    this.#queues = [
      { lanes: urgent, maxBatches: MAX_URGENT_BATCHES, activeBatches: 0 },
      { lanes: normal, maxBatches: MAX_BATCHES, activeBatches: 0 },
    ];
    void this.#run();
  }

  stop(): void {
    this.#isStopped = true;
    this.#parts.requests.stop();
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.#parts.requests.added.next();
      this.#serve();
    }
  }

  #serve(): void {
    for (const queue of this.#queues) {
      while (queue.activeBatches < queue.maxBatches) {
        const batch = this.#takeBatch(queue);
        if (batch.length === 0) break;
        void this.#serveBatch(queue, batch);
      }
    }
  }

  #takeBatch({ lanes }: FillQueue): Lane[] {
    const batch: Lane[] = [];
    for (const lane of lanes) {
      if (this.#activeLanes.has(lane)) continue;
      lanes.delete(lane);
      if (isOpen(lane)) batch.push(lane);
      if (batch.length === BATCH_LANES) break;
    }
    return batch;
  }

  async #serveBatch(queue: FillQueue, batch: Lane[]): Promise<void> {
    for (const lane of batch) this.#activeLanes.add(lane);
    queue.activeBatches += 1;
    try {
      await this.#fill(batch);
    } catch (error) {
      // Database errors are retried in `#fill`, so this is an internal error; the next scan requests the lanes again.
      this.#runtime.log.error({ err: error }, 'lanes could not be filled');
    } finally {
      for (const lane of batch) this.#activeLanes.delete(lane);
      queue.activeBatches -= 1;
    }
    this.#serve();
  }

  async #fill(lanes: Lane[]): Promise<void> {
    let own: Lane[];
    let others: Lane[];
    try {
      await this.#loadTargets(lanes);
      own = lanes.filter(hasOwnStatements);
      others = lanes.filter((lane) => !own.includes(lane));
      await this.#fetchRows(others);
    } catch (error) {
      return this.#retryFill(lanes, error);
    }
    this.#filled(others);
    if (own.length > 0) await this.#endDeliveries(own);
  }

  async #endDeliveries(lanes: Lane[]): Promise<void> {
    try {
      for (const lane of lanes) if (await this.#unusable.count(lane)) this.#parts.requests.add(lane);
      await this.#fetchRows(await endOldEpochBatches(this.#runtime, this.#parts.ownership, lanes.filter(needsFetch)));
    } catch (error) {
      return this.#retryFill(lanes, error);
    }
    this.#filled(lanes);
  }

  #filled(lanes: readonly Lane[]): void {
    for (const lane of lanes) {
      if (lane.isClosed) continue;
      if (lane.target === null || lane.needsFetch) this.#parts.requests.add(lane);
      this.#parts.dispatcher.send([lane]);
    }
  }

  /**
   * Retries after the database was unavailable. After another error, one lane may be the cause, so the batch is split
   * in halves.
   */
  async #retryFill(lanes: Lane[], error: unknown): Promise<void> {
    const isDatabaseDown = isUnavailable(error);
    if (!isDatabaseDown && lanes.length > 1) {
      const middle = Math.ceil(lanes.length / 2);
      await this.#fill(lanes.slice(0, middle).filter(isOpen));
      return this.#fill(lanes.slice(middle).filter(isOpen));
    }
    const about = { webhooks: lanes.map(({ webhookId }) => webhookId), reason: String(error) };
    this.#runtime.log.warn(about, 'deliveries could not be fetched; retrying');
    const again = wait(RETRY_MS, undefined, { ref: false }).then(() =>
      lanes.forEach((lane) => this.#parts.requests.add(lane)),
    );
    if (isDatabaseDown) await again;
  }

  async #loadTargets(lanes: readonly Lane[]): Promise<void> {
    const missing = lanes.filter((lane) => lane.target === null);
    if (missing.length === 0) return;
    const changes = new Map(missing.map((lane) => [lane, lane.changes]));
    const rows = await loadTargets(this.#runtime.sql, missing.map(shardOfLane), missing.map(webhookOf));
    for (const lane of missing) {
      // The webhook changed during the read, so the row may be outdated.
      if (lane.changes !== changes.get(lane)) continue;
      const row = rows.find(({ id }) => id === lane.webhookId);
      const target = this.#targetOf(lane, row);
      lane.applySettings(target, row && this.#stateOf(row));
      // The pending disable is stored but not executed: by a previous owner that crashed, or by this worker a moment
      // ago.
      if (row?.isPendingDisable === true && lane.isPendingDisable && target !== UNUSABLE)
        this.#parts.pendingDisables.request(lane, row.epoch);
    }
  }

  #stateOf(row: TargetRow): WebhookState {
    const { consecutiveFailures, firstFailureAt, isWarned, hasSucceeded, isPendingDisable } = row;
    return {
      health: { consecutiveFailures, firstFailureAt, isWarned, hasSucceeded },
      backoff: fromStored(row, consecutiveFailures, momentOf(this.#runtime.clock)),
      isPendingDisable,
    };
  }

  /**
   * Returns the target, or `UNUSABLE` if the row cannot be used, which blocks only its own webhook. It is read again
   * every 30 s.
   */
  #targetOf(lane: Lane, row: TargetRow | undefined): Target {
    try {
      const target = targetOf(row, this.#runtime.sealer);
      this.#unusable.remove(lane);
      return target;
    } catch (error) {
      this.#unusable.add(lane, error);
      return UNUSABLE;
    }
  }

  async #fetchRows(lanes: readonly Lane[]): Promise<void> {
    const fetching = lanes.filter(needsFetch);
    if (fetching.length === 0) return;
    const startedMs = this.#runtime.clock.now().getTime();
    const fetches = fetching.map((lane) => lane.deliveries.beginFetch(startedMs));
    try {
      const rows = await fetchLanes(this.#runtime.sql, fetching.map(shardOfLane), fetching.map(webhookOf), fetches);
      const byWebhook = Map.groupBy(rows, (row) => row.webhookId);
      const nowMs = this.#runtime.clock.now().getTime();
      const sending = new Set(fetching.filter((lane) => lane.target?.isActive === true).map(webhookOf));
      const postponed = await postponeInOrder(this.#runtime, this.#parts.ownership, fetching, rows, nowMs);
      const due = rows.filter(
        ({ id, dueAt, webhookId }) => dueAt.getTime() <= nowMs && sending.has(webhookId) && !postponed.has(id),
      );
      await readAhead(this.#parts.bodies, this.#runtime.log, due);
      for (const [index, lane] of fetching.entries()) {
        // Deliveries that are not due are taken only to end them; a webhook that changes meanwhile may continue.
        const isInactive = lane.target?.isActive === false && lane.target !== UNUSABLE;
        const until = isInactive ? Number.POSITIVE_INFINITY : nowMs;
        const fetch = fetches[index];
        if (fetch === undefined) continue;
        const found = byWebhook.get(lane.webhookId) ?? [];
        lane.deliveries.endFetch(found, fetch, until, postponed);
        noteOldEpochs(lane, found, fetch);
      }
    } catch (error) {
      for (const lane of fetching) lane.deliveries.abandonFetch();
      throw error;
    }
  }
}
