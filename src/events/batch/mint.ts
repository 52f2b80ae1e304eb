import type { Queryable } from '#database/pool.ts';
import { EVENT_BLOCK, nextEventBlock } from './queries.ts';

/** `inTransaction`: the caller holds a connection of the pool. */
export type Mint = (sql: Queryable, count: number, inTransaction?: 'inTransaction') => Promise<number[]>;

/**
 * Numbers of event ids, from blocks of the sequence; callers that arrive while a block is fetched wait for the same one. Not
 * those in a transaction, which fetch one of their own: the other may be waiting for the connection that they hold. Of two
 * blocks that come at once the rest of the first is left out.
 */
export const createMint = (): Mint => {
  let next = 0;
  let end = 0;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable) => {
    next = await nextEventBlock(sql);
    end = next + EVENT_BLOCK;
  };
  return async (sql, count, inTransaction) => {
    const numbers: number[] = [];
    while (numbers.length < count) {
      if (next === end && inTransaction) await fetchBlock(sql);
      else if (next === end) await (fetching ??= fetchBlock(sql).finally(() => (fetching = undefined)));
      // Whoever waited beside us may have taken the whole block.
      if (next < end) numbers.push(next++);
    }
    return numbers;
  };
};
