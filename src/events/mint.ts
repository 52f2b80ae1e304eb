import type { Sql } from '#database/pool.ts';
import { EVENT_BLOCK, nextEventBlock } from './queries.ts';

/** Event ids from blocks of the sequence; callers that arrive while a block is fetched wait for the same one. */
export const createMint = (sql: Sql) => {
  let next = 0;
  let end = 0;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async () => {
    next = await nextEventBlock(sql);
    end = next + EVENT_BLOCK;
  };
  return async (count: number): Promise<number[]> => {
    const numbers: number[] = [];
    while (numbers.length < count) {
      if (next === end) await (fetching ??= fetchBlock().finally(() => (fetching = undefined)));
      // Whoever waited beside us may have taken the whole block.
      if (next < end) numbers.push(next++);
    }
    return numbers;
  };
};
