/** Writes entries under the fences of their shards. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from '#database/pool.ts';
import { isRefused, isUnavailable } from '#database/unavailable.ts';
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import { toColumns, toStates } from './columns.ts';
import type { Entry } from './entry.ts';
import { recordBatch, recordWithoutHistory } from './queries.ts';

export type WriterDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
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
    return this.#untilTold(() => this.#write(entries, keepsAnswers), entries.length);
  }

  /** What became of the delivery and nothing else. */
  writeWithoutHistory(entry: Entry): Promise<boolean> {
    return this.#untilTold(() => this.#writeWithoutHistory(entry), 1);
  }

  /**
   * A database that is away, or a COMMIT whose result is unknown: the same again, before anything later, so that the states
   * of a webhook are written in their order. Recording again changes nothing twice. Of several the halves are tried apart
   * (half as much may be quick enough); a single one is given up for nothing but a refusal, or its history would be lost to
   * a deadlock or a statement that somebody cancelled.
   */
  async #untilTold<T>(attempt: () => Promise<T>, entries: number): Promise<T> {
    for (let tries = 0; ; tries += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (isRefused(error) || (entries > 1 && !isUnavailable(error))) throw error;
        if (tries === 0 && !isUnavailable(error)) this.#deps.log.warn({ err: error }, 'an outcome is written again');
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
