/** Reads that may have to look at everything a store has: they end when they take too long. */
import { Problem } from '#kernel/problem.ts';
import { transaction, type Sql, type Tx } from './pool.ts';

const QUERY_CANCELED = '57014';

/**
 * Runs statements that only read, each for at most `limitMs`. One that takes longer is a 400 and not a 503 with a
 * Retry-After: it is what was asked for that costs so much, and asked again it costs it again.
 */
export const bounded = async <T>(sql: Sql, limitMs: number, read: (tx: Tx) => Promise<T>): Promise<T> => {
  try {
    return await transaction(sql, async (tx) => {
      await tx`select set_config('statement_timeout', ${String(limitMs)}, true)`;
      return read(tx);
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
    const message = `This takes longer than ${limitMs} ms to find: narrow it down by id or by a date, or leave the order as it is`;
    throw new Problem(400, { code: 'too_much_to_search', message }, { cause: error });
  }
};
