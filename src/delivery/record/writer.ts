/** Writes entries under the fences of their shards. */
import { setTimeout as wait } from 'node:timers/promises';
import { isUnavailable, type Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import { toColumns, toStates } from './columns.ts';
import type { Entry } from './entry.ts';
import { recordBatch, recordWithoutHistory } from './queries.ts';

export type WriterDeps = {
  sql: Sql;
  clock: Clock;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  onLost: (shard: number) => void;
  /** Whether the delivery was noted before it was sent. */
  isNoted: (shard: number, deliveryId: number) => boolean;
};

export const RETRY_MS = 250;

export class Writer {
  readonly #deps: WriterDeps;

  constructor(deps: WriterDeps) {
    this.#deps = deps;
  }

  /** Answers of each entry whether it is committed: false where its shard was lost. */
  write(entries: readonly Entry[], keepsAnswers: boolean): Promise<boolean[]> {
    return this.#whenAvailable(() => this.#write(entries, keepsAnswers));
  }

  /** What became of the delivery and nothing else. */
  writeWithoutHistory(entry: Entry): Promise<boolean> {
    return this.#whenAvailable(() => this.#writeWithoutHistory(entry));
  }

  /**
   * A database that is away, or a COMMIT whose result is unknown: the same again, before anything later, so that the states
   * of a webhook are written in their order. Recording again changes nothing twice.
   */
  async #whenAvailable<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        await wait(RETRY_MS);
      }
    }
  }

  async #write(entries: readonly Entry[], keepsAnswers: boolean): Promise<boolean[]> {
    const { sql, clock, workerId, fenceOf, onLost, isNoted } = this.#deps;
    const shards = [...new Set(entries.map(({ shard }) => shard))].toSorted((a, b) => a - b);
    const fences = shards.flatMap((shard) => {
      const fence = fenceOf(shard);
      return fence === undefined ? [] : [{ shard, fence }];
    });
    if (fences.length === 0) return entries.map(() => false);
    const columns = { shard: fences.map(({ shard }) => shard), fence: fences.map(({ fence }) => fence) };
    const now = clock.now();
    const noted = entries.filter(({ shard, delivery }) => isNoted(shard, delivery.id));
    const notes = { shard: noted.map(({ shard }) => shard), deliveryId: noted.map(({ delivery }) => delivery.id) };
    const rows = toColumns(entries, now, keepsAnswers);
    const held = new Set(await recordBatch(sql, workerId, columns, rows, toStates(entries), notes, now));
    for (const { shard } of fences) if (!held.has(shard)) onLost(shard);
    return entries.map(({ shard }) => held.has(shard));
  }

  async #writeWithoutHistory({ shard, delivery, attempts, faults, next }: Entry): Promise<boolean> {
    const { sql, clock, workerId, fenceOf, onLost } = this.#deps;
    const fence = fenceOf(shard);
    if (fence === undefined) return false;
    const isOver = 'state' in next;
    const dueAt = isOver ? clock.now() : next.dueAt;
    const row = { id: delivery.id, isOver, attempts, faults, dueAt };
    const isHeld = await recordWithoutHistory(sql, workerId, { shard, fence }, row);
    if (!isHeld) onLost(shard);
    return isHeld;
  }
}
