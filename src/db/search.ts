/** Reads that may have to look at everything a store has: they end when they take too long, and few run at once. */
import type { Listing } from '#core/listing.ts';
import { Problem } from '#core/problem.ts';
import { transaction, type Sql, type Tx } from './pool.ts';

const QUERY_CANCELED = '57014';

/** As far as this a page costs no more than counting what there is; beyond it what is skipped costs more. */
const PLAIN_OFFSET_ITEMS = 10_000;

const isPlain = ({ offset, order, filters }: Listing): boolean =>
  offset <= PLAIN_OFFSET_ITEMS && order.length === 0 && filters.length === 0;

/** `searchLimitMs` for each statement; `searchesAtOnce` in this process; of one store `searchesWaiting` for their turn. */
type Limits = { searchLimitMs: number; searchesAtOnce: number; searchesWaiting: number };

/** Reads one page of what a store has; `read` gets a transaction that only reads. */
export type Search = <T>(storeId: number, page: Listing, read: (tx: Tx) => Promise<T>) => Promise<T>;

/**
 * A search that takes too long is a 400 and not a 503 with a Retry-After: it is what was asked for that costs so much, and
 * asked again it costs it again. Of a plain page nobody has asked for anything that could be left out.
 */
const tookTooLong = (page: Listing, limitMs: number, cause: unknown): Problem => {
  if (isPlain(page)) {
    const message = `This took longer than ${limitMs} ms; try again shortly`;
    return new Problem(503, { code: 'unavailable', message }, { headers: { 'Retry-After': '5' }, cause });
  }
  const message = `This takes longer than ${limitMs} ms to find: narrow it down by id or by a date, or leave the order as it is`;
  return new Problem(400, { code: 'too_much_to_search', message }, { cause });
};

const limited = async <T>(sql: Sql, limitMs: number, page: Listing, read: (tx: Tx) => Promise<T>): Promise<T> => {
  const bounded = async (tx: Tx): Promise<T> => {
    await tx`select set_config('statement_timeout', ${String(limitMs)}, true)`;
    return read(tx);
  };
  try {
    return await transaction(sql, bounded, 'read only');
  } catch (error) {
    if ((error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
    throw tookTooLong(page, limitMs, error);
  }
};

/**
 * Turns: of each store one at a time, of all stores together `searchesAtOnce`. `take` waits, without a connection, and
 * answers false where as many of that store wait already.
 */
const createTurns = ({ searchesAtOnce, searchesWaiting }: Limits) => {
  const running = new Set<number>();
  const waiting: { storeId: number; go: () => void }[] = [];
  const mayGo = (storeId: number): boolean => running.size < searchesAtOnce && !running.has(storeId);
  return {
    take: async (storeId: number): Promise<boolean> => {
      if (mayGo(storeId)) {
        running.add(storeId);
        return true;
      }
      if (waiting.filter((one) => one.storeId === storeId).length >= searchesWaiting) return false;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ storeId, go: resolve });
      await promise;
      return true;
    },
    give: (storeId: number): void => {
      running.delete(storeId);
      const at = waiting.findIndex((one) => mayGo(one.storeId));
      if (at === -1) return;
      for (const next of waiting.splice(at, 1)) {
        running.add(next.storeId);
        next.go();
      }
    },
  };
};

/**
 * Whatever is ordered, filtered or far from the beginning counts as a search, and waits its turn before it takes a
 * connection: twenty searches of one store held the whole pool, and a plain read of another one waited nine seconds.
 */
export const createSearch = (sql: Sql, limits: Limits): Search => {
  const { searchLimitMs, searchesWaiting } = limits;
  const turns = createTurns(limits);
  return async (storeId, page, read) => {
    if (isPlain(page)) return limited(sql, searchLimitMs, page, read);
    if (!(await turns.take(storeId))) {
      const seconds = Math.ceil(searchLimitMs / 1_000);
      const message = `${searchesWaiting} searches of this store wait already: ask for one page with order or filters at a time, and again in ${seconds} s`;
      throw new Problem(429, { code: 'too_many_searches', message }, { headers: { 'Retry-After': String(seconds) } });
    }
    try {
      return await limited(sql, searchLimitMs, page, read);
    } finally {
      turns.give(storeId);
    }
  };
};
