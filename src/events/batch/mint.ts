import type { Queryable } from '#database/pool.ts';
import { EVENT_BLOCK, nextEventBlock } from './queries.ts';

export type Mint = (sql: Queryable, count: number) => Promise<number[]>;

/**
 * Numbers of event ids, from blocks of the sequence; callers that arrive while a block is fetched wait for the same one. It
 * is fetched over the connection of the first, because a transaction that waits for another of the pool may wait for ever.
 */
export const createMint = (): Mint => {
  let next = 0;
  let end = 0;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable) => {
    next = await nextEventBlock(sql);
    end = next + EVENT_BLOCK;
  };
  return async (sql, count) => {
    const numbers: number[] = [];
    while (numbers.length < count) {
      if (next === end) await (fetching ??= fetchBlock(sql).finally(() => (fetching = undefined)));
      // Whoever waited beside us may have taken the whole block.
      if (next < end) numbers.push(next++);
    }
    return numbers;
  };
};
