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
  /** Whether the delivery was noted before it was sent. */
  isNoted: (shard: number, deliveryId: number) => boolean;
};

export const RETRY_MS = 250;

/**
 * Between the tries of a single entry that fails and is not refused: a deadlock, a statement that somebody cancelled. Five
 * tries, and no more: while it is tried every other outcome waits, and a page that cannot be read never can.
 */
export const PATIENCE_MS: readonly number[] = [50, 100, 200, 400];

/** What is ours was taken under a fence. */
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
   * Answers of each entry whether it is committed: false where its shard was lost since it was taken, though it may be ours
   * again. `patienceMs`: how long to wait before each further try, where it fails and is not refused.
   */
  write(
    entries: readonly Entry[],
    { keepsAnswers, patienceMs = [] }: { keepsAnswers: boolean; patienceMs?: readonly number[] },
  ): Promise<boolean[]> {
    return this.#untilTold(() => this.#write(entries, keepsAnswers), patienceMs);
  }

  /** What became of the delivery, and with `keepsState` of its webhook, and nothing else. */
  writeWithoutHistory(entry: Entry, keepsState: boolean): Promise<boolean> {
    return this.#untilTold(() => this.#writeWithoutHistory(entry, keepsState), []);
  }

  /** Whether its shard may be ours as it was when it was taken: after a silence the statement that records it finds out. */
  isOurs({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.lastFenceOf(shard) === fence;
  }

  /** Whether its shard is held as it was when it was taken. */
  isHeld({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#deps.fenceOf(shard) === fence;
  }

  /**
   * A database that is away, or a COMMIT whose result is unknown: the same again, before anything later, so that the states
   * of a webhook are written in their order. Recording again changes nothing twice.
   */
  async #untilTold<T>(attempt: () => Promise<T>, patienceMs: readonly number[]): Promise<T> {
    let tries = 0;
    for (;;) {
      let waitMs: number | undefined = RETRY_MS;
      try {
        return await attempt();
      } catch (error) {
        if (!isUnavailable(error)) {
          waitMs = patienceMs[tries];
          if (isRefused(error) || waitMs === undefined) throw error;
          if (tries === 0) this.#deps.log.warn({ err: error }, 'an outcome is written again');
          tries += 1;
        }
      }
      await wait(waitMs);
    }
  }

  async #write(entries: readonly Entry[], keepsAnswers: boolean): Promise<boolean[]> {
    const { sql, clock, workerId, onLost, isNoted } = this.#deps;
    const ours = entries.filter((entry) => this.isOurs(entry));
    if (ours.length === 0) return entries.map(() => false);
    const fences = [...new Map(ours.map((entry) => [entry.shard, requireFence(entry)]))].toSorted(([a], [b]) => a - b);
    const columns = { shard: fences.map(([shard]) => shard), fence: fences.map(([, fence]) => fence) };
    const now = clock.now();
    // Notes of a shard that was given up are known no more.
    const noted = ours.filter((entry) => !this.isHeld(entry) || isNoted(entry.shard, entry.delivery.id));
    const notes = { shard: noted.map(({ shard }) => shard), deliveryId: noted.map(({ delivery }) => delivery.id) };
    const rows = toColumns(ours, now, keepsAnswers);
    const held = new Set(await recordBatch(sql, workerId, columns, rows, toStates(ours), notes, now));
    for (const [shard, fence] of fences) if (!held.has(shard)) onLost(shard, fence);
    const written = new Set(ours.filter(({ shard }) => held.has(shard)));
    return entries.map((entry) => written.has(entry));
  }

  async #writeWithoutHistory(entry: Entry, keepsState: boolean): Promise<boolean> {
    const { sql, clock, workerId, onLost } = this.#deps;
    const { shard, fence, delivery, attempts, faults, next } = entry;
    if (fence === undefined || !this.isOurs(entry)) return false;
    const isOver = 'state' in next;
    const dueAt = isOver ? clock.now() : next.dueAt;
    const row = { id: delivery.id, isOver, before: delivery.attempts, attempts, faults, dueAt };
    const states = toStates(keepsState ? [entry] : []);
    const isHeld = await recordWithoutHistory(sql, workerId, { shard, fence }, row, states);
    if (!isHeld) onLost(shard, fence);
    return isHeld;
  }
}
