/** Writes entries under the fencing tokens of their shards. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from '#db/pool.ts';
import { isRefused, isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { toColumns, toStates } from './columns.ts';
import type { Entry } from './entry.ts';
import { recordBatch, recordWithoutHistory } from './record-sql.ts';

export type WriterDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  /** Returns the token also after a lapse of the lease, while no other owner is known. */
  lastFenceOf: (shard: number) => number | undefined;
  onLost: (shard: number, fence: number) => void;
  /** Returns whether the delivery was marked as in flight before it was sent. */
  isMarked: (shard: number, deliveryId: number) => boolean;
};

export const UNAVAILABLE_RETRY_MS = 250;

/**
 * Delays before retries of a single entry that failed without being rejected, such as by a deadlock or a cancelled
 * statement. Limited to five tries: all other results wait meanwhile, and an unreadable page never becomes readable.
 */
export const RETRY_DELAYS_MS: readonly number[] = [50, 100, 200, 400];

/** Returns the token under which the entry's delivery was dequeued; throws if there is none. */
const requireFence = ({ shard, fence }: Entry): number => {
  if (fence === undefined) throw new Error(`A delivery of shard ${shard} is recorded without a fence`);
  return fence;
};

export class Writer {
  readonly #deps: WriterDeps;

  constructor(deps: WriterDeps) {
    this.#deps = deps;
  }

  /**
   * Returns for each entry whether it is committed: false if its shard was lost since the delivery was dequeued, even
   * if it is owned again. `retryDelaysMs`: delays before further tries after a failure that is not a rejection.
   */
  write(
    entries: readonly Entry[],
    { keepResponses, retryDelaysMs = [] }: { keepResponses: boolean; retryDelaysMs?: readonly number[] },
  ): Promise<boolean[]> {
    return this.#retryUntilAvailable(() => this.#write(entries, keepResponses), retryDelaysMs);
  }

  /** Records the result of the delivery without history, and with `keepState` the state of its webhook. */
  writeWithoutHistory(entry: Entry, keepState: boolean): Promise<boolean> {
    return this.#retryUntilAvailable(() => this.#writeWithoutHistory(entry, keepState), []);
  }

  /**
   * Returns whether the shard may still be owned under the entry's token: after a lapse of the lease the record
   * statement decides.
   */
  mayOwnShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.lastFenceOf(shard) === fence;
  }

  /** Returns whether the shard is owned under the entry's token. */
  ownsShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.fenceOf(shard) === fence;
  }

  /**
   * Repeats the write while the database is unavailable or the result of a COMMIT is unknown, before any later write,
   * so that states of a webhook are written in order. Recording is idempotent.
   */
  async #retryUntilAvailable<T>(attempt: () => Promise<T>, retryDelaysMs: readonly number[]): Promise<T> {
    let tries = 0;
    for (;;) {
      let waitMs: number | undefined = UNAVAILABLE_RETRY_MS;
      try {
        return await attempt();
      } catch (error) {
        if (!isUnavailable(error)) {
          waitMs = retryDelaysMs[tries];
          if (isRefused(error) || waitMs === undefined) throw error;
          if (tries === 0) this.#deps.log.warn({ err: error }, 'recording results failed; retrying');
          tries += 1;
        }
      }
      await wait(waitMs);
    }
  }

  async #write(entries: readonly Entry[], keepResponses: boolean): Promise<boolean[]> {
    const { sql, clock, workerId, onLost, isMarked } = this.#deps;
    const candidates = entries.filter((entry) => this.mayOwnShard(entry));
    if (candidates.length === 0) return entries.map(() => false);
    const fences = [...new Map(candidates.map((entry) => [entry.shard, requireFence(entry)]))].toSorted(
      ([a], [b]) => a - b,
    );
    const columns = { shard: fences.map(([shard]) => shard), fence: fences.map(([, fence]) => fence) };
    const now = clock.now();
    // Marks of a shard that was lost are not in memory any more, so all its entries delete theirs.
    const marked = candidates.filter((entry) => !this.ownsShard(entry) || isMarked(entry.shard, entry.delivery.id));
    const markers = { shard: marked.map(({ shard }) => shard), deliveryId: marked.map(({ delivery }) => delivery.id) };
    const rows = toColumns(candidates, now, keepResponses);
    const owned = new Set(await recordBatch(sql, workerId, columns, rows, toStates(candidates), markers, now));
    for (const [shard, fence] of fences) if (!owned.has(shard)) onLost(shard, fence);
    const written = new Set(candidates.filter(({ shard }) => owned.has(shard)));
    return entries.map((entry) => written.has(entry));
  }

  async #writeWithoutHistory(entry: Entry, keepState: boolean): Promise<boolean> {
    const { sql, clock, workerId, onLost } = this.#deps;
    const { shard, fence, delivery, attempts, faults, next } = entry;
    if (fence === undefined || !this.mayOwnShard(entry)) return false;
    const hasEnded = 'state' in next;
    const dueAt = hasEnded ? clock.now() : next.dueAt;
    const row = { id: delivery.id, hasEnded, before: delivery.attempts, attempts, faults, dueAt };
    const states = toStates(keepState ? [entry] : []);
    const isOwned = await recordWithoutHistory(sql, workerId, { shard, fence }, row, states);
    if (!isOwned) onLost(shard, fence);
    return isOwned;
  }
}
