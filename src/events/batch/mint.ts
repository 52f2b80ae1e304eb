import type { Queryable } from '#database/pool.ts';
import { EVENT_BLOCK, nextEventBlock } from '../queries.ts';

/** `inTransaction`: the caller holds a connection of the pool. */
export type Mint = (sql: Queryable, count: number, inTransaction?: 'inTransaction') => Promise<number[]>;

/**
 * What is left of a block after that is not used: ids would be far lower than others of the same moment, and lists by id would
 * find them too late. Sixty writers that make an event now and then use up the numbers of a day so (17 million each).
 */
const BLOCK_AGE_MS = 5_000;

/**
 * Numbers of event ids, from blocks of the sequence; callers that arrive while a block is fetched wait for the same one. Not
 * those in a transaction, which fetch one of their own: the other may be waiting for the connection that they hold. Of two
 * blocks that come at once the rest of the first is left out. Without a clock a block never ages, which is for a program that
 * does one thing and ends.
 */
export const createMint = (monotonicMs: () => number = () => 0): Mint => {
  let next = 0;
  let end = 0;
  let fetchedMs = 0;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable) => {
    next = await nextEventBlock(sql);
    end = next + EVENT_BLOCK;
    fetchedMs = monotonicMs();
  };
  return async (sql, count, inTransaction) => {
    const numbers: number[] = [];
    if (count > 0 && monotonicMs() - fetchedMs > BLOCK_AGE_MS) next = end;
    while (numbers.length < count) {
      if (next === end && inTransaction) await fetchBlock(sql);
      else if (next === end) await (fetching ??= fetchBlock(sql).finally(() => (fetching = undefined)));
      // Whoever waited beside us may have taken the whole block.
      if (next < end) numbers.push(next++);
    }
    return numbers;
  };
};
