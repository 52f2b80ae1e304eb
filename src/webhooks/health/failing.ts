/** What fails now: the webhooks of a database at which the most events have not arrived. */
import type { Queryable } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import { listFailing, type FailingRow } from './failing-sql.ts';
import { NOT_ARRIVED_COUNTED_MAX } from './figures.ts';
import { listNotArrived, listPending } from './health-sql.ts';

/** Webhooks of each kind whose events are counted; those of a store are at most 100. */
const EXAMINED_MAX = 25;
const EXAMINED_OF_STORE_MAX = 100;
/** Days before today whose failed deliveries choose the webhooks. */
const DAYS = 1;

/** `notArrived` and `waiting` (pending deliveries) are counted up to 1,000. `since`: the date of the oldest event that has not arrived, or of the first failure. */
export type Failing = Omit<FailingRow, 'shard' | 'epoch' | 'failingSince'> & {
  notArrived: number;
  waiting: number;
  since: Date | null;
};

const earliest = (...dates: readonly (Date | null)[]): Date | null =>
  dates.reduce((first, date) => (first === null || (date !== null && date < first) ? date : first), null);

async function countShard(tx: Queryable, shard: number, rows: readonly FailingRow[]): Promise<Failing[]> {
  const ids = rows.map(({ id }) => id);
  const failed = new Map(
    (await listNotArrived(tx, shard, ids, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  const pending = new Map(
    (await listPending(tx, shard, rows, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  return rows.map(({ shard: _, epoch: __, failingSince, ...row }) => ({
    ...row,
    notArrived: failed.get(row.id)?.count ?? 0,
    waiting: pending.get(row.id)?.pending ?? 0,
    since: earliest(failingSince, failed.get(row.id)?.since ?? null),
  }));
}

/** The most events that wait or have failed first. */
export function byMissing(a: Failing, b: Failing): number {
  return b.notArrived + b.waiting - (a.notArrived + a.waiting) || a.id - b.id;
}

/** Returns the webhooks of all stores that fail most, or those of one store, the worst first. Throws the errors of `Search`. */
export type ReadFailing = (now: Date, store?: { shard: number; storeId: number }) => Promise<Failing[]>;

/** All statements share the time limit of a search and a read-only transaction. */
export function createFailing(search: Search): ReadFailing {
  return (now, store) => {
    const limit = store === undefined ? EXAMINED_MAX : EXAMINED_OF_STORE_MAX;
    return search(0, { offset: 0, limit, order: [], filters: [] }, async (tx) => {
      const rows = await listFailing(tx, { fromId: firstIdOfDay(dayOf(now) - DAYS), limit }, store);
      const counted: Failing[] = [];
      for (const [shard, ofShard] of Map.groupBy(rows, (row) => row.shard))
        counted.push(...(await countShard(tx, shard, ofShard)));
      return counted.toSorted(byMissing);
    });
  };
}
