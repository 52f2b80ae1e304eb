import { EVENT_BLOCK, nextEventBlock } from '#db/numbers.ts';
import { createMissing } from '#db/partitions.ts';
import type { Queryable } from '#db/pool.ts';

/**
 * Returns a number for each of the shards, unique per shard and day; `shards` may contain repetitions. `inTransaction`: the
 * caller occupies a connection of the pool.
 */
export type IdAllocator = (
  sql: Queryable,
  request: { day: number; shards: readonly number[] },
  inTransaction?: 'inTransaction',
) => Promise<number[]>;

/** `used`: how many numbers of the block each shard has used. */
type Block = { day: number; first: number; fetchedMs: number; used: Map<number, number> };

/**
 * Older blocks are discarded: their ids would be far lower than others of the same time, and lists ordered by id would show
 * them too late. With this age, 242 processes that write an event now and then use up the numbers of a day (17,280 blocks of
 * 256 each).
 */
const BLOCK_AGE_MS = 5_000;

/**
 * Creates an allocator of the numbers in event ids. It takes them from blocks, in which each shard counts separately;
 * concurrent callers wait for the same fetch. Callers in a transaction fetch a block themselves, because the other fetch may
 * wait for the connection that they occupy. If two blocks arrive at once, the rest of the first is unused.
 *
 * Without a clock blocks never expire, for programs that run once and end.
 */
export const createIdAllocator = (monotonicMs: () => number = () => 0): IdAllocator => {
  let block: Block | undefined;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable, day: number) => {
    let first = await nextEventBlock(sql, day);
    // After a clock change or a suspended computer the day may have no partitions yet.
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
      // Concurrent callers may have used all numbers of the shard, or fetched a block of another day.
      for (; number === undefined; number = take(day, shard)) {
        if (inTransaction) await fetchBlock(sql, day);
        else await (fetching ??= fetchBlock(sql, day).finally(() => (fetching = undefined)));
      }
      numbers.push(number);
    }
    return numbers;
  };
};
