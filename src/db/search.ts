/** Limits the duration and concurrency of reads that may scan a whole store. */
import type { Listing } from '#core/listing.ts';
import { Problem, temporary } from '#core/problem.ts';
import { transaction, type Sql, type Tx } from './pool.ts';
import { codeOf } from './unavailable.ts';

const QUERY_CANCELED = '57014';

/**
 * A page of the whole list in its own order, whatever its offset: every page links to the last one, which therefore is never refused.
 * Pages are read from the nearer end, so that skipping rows costs at most half as much as counting them for any page.
 */
const isPlain = ({ order, filters }: Listing): boolean => order.length === 0 && filters.length === 0;

/** The code of the error of a search that exceeded its limit. */
export const TOO_MUCH_TO_SEARCH = 'too_much_to_search';

/** `searchLimitMs` per statement; `searchesAtOnce` in this process; `searchesWaiting` queued per store. */
type Limits = { searchLimitMs: number; searchesAtOnce: number; searchesWaiting: number };

/** Reads one page of a store; `read` gets a read-only transaction. */
export type Search = <T>(storeId: number, page: Listing, read: (tx: Tx) => Promise<T>) => Promise<T>;

/**
 * Returns the error of a read that exceeded its limit. A search is a 400, because a retry would cost the same; a plain page is a
 * 503 with a Retry-After, because the request has nothing to narrow down.
 */
function timeoutProblem(page: Listing, limitMs: number, cause: unknown): Problem {
  if (isPlain(page)) {
    const message = `This took longer than ${limitMs} ms; try again shortly`;
    return temporary(503, { code: 'unavailable', message }, 5, { cause });
  }
  const message = `This takes longer than ${limitMs} ms to find: narrow it down by id or by a date, or leave the order as it is`;
  return new Problem(400, { code: TOO_MUCH_TO_SEARCH, message }, { cause });
}

async function limited<T>(sql: Sql, limitMs: number, page: Listing, read: (tx: Tx) => Promise<T>): Promise<T> {
  const bounded = async (tx: Tx): Promise<T> => {
    await tx`select set_config('statement_timeout', ${String(limitMs)}, true)`;
    return read(tx);
  };
  try {
    return await transaction(sql, bounded, 'read only');
  } catch (error) {
    if (codeOf(error) !== QUERY_CANCELED) throw error;
    throw timeoutProblem(page, limitMs, error);
  }
}

/**
 * Returns a semaphore that admits one search per store and `searchesAtOnce` in total. `acquire` waits without a connection, and
 * returns false if the queue of the store is full.
 */
function createSemaphore({ searchesAtOnce, searchesWaiting }: Limits) {
  const running = new Set<number>();
  const waiting: { storeId: number; start: () => void }[] = [];
  const canStart = (storeId: number): boolean => running.size < searchesAtOnce && !running.has(storeId);
  return {
    acquire: async (storeId: number): Promise<boolean> => {
      if (canStart(storeId)) {
        running.add(storeId);
        return true;
      }
      if (waiting.filter((one) => one.storeId === storeId).length >= searchesWaiting) return false;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ storeId, start: resolve });
      await promise;
      return true;
    },
    release: (storeId: number): void => {
      running.delete(storeId);
      const at = waiting.findIndex((one) => canStart(one.storeId));
      if (at === -1) return;
      for (const next of waiting.splice(at, 1)) {
        running.add(next.storeId);
        next.start();
      }
    },
  };
}

/**
 * Returns the search function. An ordered or filtered page counts as a search and is queued before it takes a connection: without
 * the queue, twenty searches of one store occupied the whole pool, and a plain read of another store waited nine seconds. Other
 * pages never wait for a search.
 */
export function createSearch(sql: Sql, limits: Limits): Search {
  const { searchLimitMs, searchesWaiting } = limits;
  const semaphore = createSemaphore(limits);
  return async (storeId, page, read) => {
    if (isPlain(page)) return limited(sql, searchLimitMs, page, read);
    if (!(await semaphore.acquire(storeId))) {
      const seconds = Math.ceil(searchLimitMs / 1_000);
      const message = `${searchesWaiting} searches of this store are waiting already: request one page with order or filters at a time, and retry in ${seconds} s`;
      throw temporary(429, { code: 'too_many_searches', message }, seconds);
    }
    try {
      return await limited(sql, searchLimitMs, page, read);
    } finally {
      semaphore.release(storeId);
    }
  };
}
