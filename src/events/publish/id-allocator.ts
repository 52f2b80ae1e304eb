import { EVENT_BLOCK, nextEventBlock } from '#db/numbers.ts';
import { createMissing } from '#db/partitions.ts';
import type { Queryable } from '#db/pool.ts';

/**
 * Returns a number for each of the shards, which may repeat, unique there on that day. `inTransaction`: the caller holds a
 * connection of the pool.
 */
export type IdAllocator = (
  sql: Queryable,
  wanted: { day: number; shards: readonly number[] },
  inTransaction?: 'inTransaction',
) => Promise<number[]>;

/** `used`: how many of the block's numbers each shard has used. */
type Block = { day: number; first: number; fetchedMs: number; used: Map<number, number> };

/**
 * An older block is not used: ids would be far lower than others of the same moment, and lists by id would find them too late.
 * 242 writers that make an event now and then use up the numbers of a day so (17,280 blocks of 256 each).
 */
const BLOCK_AGE_MS = 5_000;

/**
 * Numbers of event ids, from blocks that each shard counts through by itself; callers that arrive while a block is fetched wait for
 * the same one. Not those in a transaction, which fetch one of their own: the other may be waiting for the connection that they
 * hold. Of two blocks that come at once the rest of the first is left out. Without a clock a block never ages, which is for a
 * program that does one thing and ends.
 */
export const createIdAllocator = (monotonicMs: () => number = () => 0): IdAllocator => {
  let block: Block | undefined;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable, day: number) => {
    let first = await nextEventBlock(sql, day);
    // The clock jumped, or the computer was suspended, beyond the days that have tables.
    if (first === undefined) {
      await createMissing(sql, day);
      first = await nextEventBlock(sql, day);
    }
    if (first === undefined) throw new Error(`Day ${day} has tables, and no numbers`);
    block = { day, first, fetchedMs: monotonicMs(), used: new Map() };
  };
  const take = (day: number, shard: number): number | undefined => {
    const used = block?.used.get(shard) ?? 0;
    if (block?.day !== day || used === EVENT_BLOCK) return undefined;
    block.used.set(shard, used + 1);
    return block.first + used;
  };
  return async (sql, { day, shards }, inTransaction) => {
    const numbers: number[] = [];
    if (shards.length > 0 && block !== undefined && monotonicMs() - block.fetchedMs > BLOCK_AGE_MS) block = undefined;
    for (const shard of shards) {
      let number = take(day, shard);
      // Whoever waited beside us may have taken all of the shard, or be of another day.
      for (; number === undefined; number = take(day, shard)) {
        if (inTransaction) await fetchBlock(sql, day);
        else await (fetching ??= fetchBlock(sql, day).finally(() => (fetching = undefined)));
      }
      numbers.push(number);
    }
    return numbers;
  };
};
