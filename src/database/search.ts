/** Reads that may have to look at everything a store has: they end when they take too long, and few run at once. */
import type { Listing } from '#kernel/listing.ts';
import { Problem } from '#kernel/problem.ts';
import { transaction, type Sql, type Tx } from './pool.ts';

const QUERY_CANCELED = '57014';

/** As far as this a page is found by an index alone; beyond it what is skipped costs more than what is shown. */
const PLAIN_OFFSET_ITEMS = 10_000;

const isPlain = ({ offset, order, filters }: Listing): boolean =>
  offset <= PLAIN_OFFSET_ITEMS && order.length === 0 && filters.length === 0;

/** `searchLimitMs` for each statement; `searchesAtOnce` in this process, each of another store. */
type Limits = { searchLimitMs: number; searchesAtOnce: number };

/** Reads one page of what a store has; `read` gets a transaction that only reads. */
export type Search = <T>(storeId: number, page: Listing, read: (tx: Tx) => Promise<T>) => Promise<T>;

/**
 * A statement that takes too long is a 400 and not a 503 with a Retry-After: it is what was asked for that costs so much,
 * and asked again it costs it again.
 */
const limited = async <T>(sql: Sql, limitMs: number, read: (tx: Tx) => Promise<T>): Promise<T> => {
  const bounded = async (tx: Tx): Promise<T> => {
    await tx`select set_config('statement_timeout', ${String(limitMs)}, true)`;
    return read(tx);
  };
  try {
    return await transaction(sql, bounded, 'read only');
  } catch (error) {
    if ((error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
    const message = `This takes longer than ${limitMs} ms to find: narrow it down by id or by a date, or leave the order as it is`;
    throw new Problem(400, { code: 'too_much_to_search', message }, { cause: error });
  }
};

/**
 * Whatever is ordered, filtered or far from the beginning counts as a search. A store has one at a time, all stores
 * together `searchesAtOnce`, and one more is a 429 before it waits for a connection: twenty searches of one store held the
 * whole pool, and a plain read of another one waited nine seconds.
 */
export const createSearch = (sql: Sql, { searchLimitMs, searchesAtOnce }: Limits): Search => {
  const searched = new Set<number>();
  const seconds = Math.ceil(searchLimitMs / 1_000);
  const tooMany = (message: string): Problem =>
    new Problem(429, { code: 'too_many_searches', message }, { headers: { 'Retry-After': String(seconds) } });
  return async (storeId, page, read) => {
    if (isPlain(page)) return limited(sql, searchLimitMs, read);
    if (searched.has(storeId)) {
      throw tooMany(
        'This store is being searched: wait for that answer, and ask for one page with order or filters at a time',
      );
    }
    if (searched.size >= searchesAtOnce) {
      throw tooMany(`Too many stores are being searched: try again in ${seconds} s, or ask without order and filters`);
    }
    searched.add(storeId);
    try {
      return await limited(sql, searchLimitMs, read);
    } finally {
      searched.delete(storeId);
    }
  };
};
