/** Writes entries under the fences of their shards. */
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
  /** The same, also where the shard was given up for silence and nobody has it yet. */
  lastFenceOf: (shard: number) => number | undefined;
  onLost: (shard: number, fence: number) => void;
  /** Whether the delivery was marked before it was sent. */
  isMarked: (shard: number, deliveryId: number) => boolean;
};

export const UNAVAILABLE_RETRY_MS = 250;

/**
 * Between the tries of a single entry that fails and is not refused: a deadlock, a statement that somebody cancelled. Five
 * tries, and no more: while it is tried every other outcome waits, and a page that cannot be read never can.
 */
export const RETRY_DELAYS_MS: readonly number[] = [50, 100, 200, 400];

/** What is candidates was taken under a fence. */
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
   * Answers of each entry whether it is committed: false where its shard was lost since it was taken, though it may be candidates
   * again. `retryDelaysMs`: how long to wait before each further try, where it fails and is not refused.
   */
  write(
    entries: readonly Entry[],
    { keepResponses, retryDelaysMs = [] }: { keepResponses: boolean; retryDelaysMs?: readonly number[] },
  ): Promise<boolean[]> {
    return this.#retryUntilAvailable(() => this.#write(entries, keepResponses), retryDelaysMs);
  }

  /** What became of the delivery, and with `keepState` of its webhook, and nothing else. */
  writeWithoutHistory(entry: Entry, keepState: boolean): Promise<boolean> {
    return this.#retryUntilAvailable(() => this.#writeWithoutHistory(entry, keepState), []);
  }

  /** Whether its shard may be candidates as it was when it was taken: after a silence the statement that records it finds out. */
  mayOwnShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.lastFenceOf(shard) === fence;
  }

  /** Whether its shard is owned as it was when it was taken. */
  ownsShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.fenceOf(shard) === fence;
  }

  /**
   * A database that is away, or a COMMIT whose result is unknown: the same again, before anything later, so that the states
   * of a webhook are written in their order. Recording again changes nothing twice.
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
          if (tries === 0) this.#deps.log.warn({ err: error }, 'an outcome is written again');
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
    // Notes of a shard that was given up are known no more.
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
