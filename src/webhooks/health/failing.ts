/** What fails now: the webhooks of a database at which the most events have not arrived. */
import type { Queryable } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import { listFailing, type FailingRow } from './failing-sql.ts';
import { stateOf } from '../webhook-document.ts';
import type { WebhookState } from '../webhook-fields.ts';
import { lastAttempts, NOT_ARRIVED_COUNTED_MAX, type Health } from './figures.ts';
import { listLastOutcomes, listNotArrived, listPending } from './health-sql.ts';

/** Webhooks of each kind whose events are counted; those of a store are at most 100. */
const EXAMINED_MAX = 25;
const EXAMINED_OF_STORE_MAX = 100;
/** Days before today whose failed deliveries choose the webhooks. */
const DAYS = 1;

/** `notArrived` and `waiting` (pending deliveries) are counted up to 1,000. `since`: the date of the oldest event that has not arrived, or of the first failure. */
export type Failing = Pick<
  FailingRow,
  'id' | 'name' | 'storeId' | 'storeName' | 'client' | 'url' | 'isActive' | 'inactiveReason'
> & {
  state: WebhookState;
  lastAttempt: Health['lastAttempt'];
  notArrived: number;
  waiting: number;
  retrying: number;
  since: Date | null;
};

const earliest = (...dates: readonly (Date | null)[]): Date | null =>
  dates.reduce((first, date) => (first === null || (date !== null && date < first) ? date : first), null);

async function countShard(tx: Queryable, shard: number, rows: readonly FailingRow[], now: Date): Promise<Failing[]> {
  const ids = rows.map(({ id }) => id);
  const failed = new Map(
    (await listNotArrived(tx, shard, ids, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  const pending = new Map(
    (await listPending(tx, shard, rows, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  const last = lastAttempts(await listLastOutcomes(tx, shard, ids));
  return rows.map((row) => ({
    ...row,
    state: stateOf(row, now),
    lastAttempt: last.get(row.id) ?? null,
    notArrived: failed.get(row.id)?.count ?? 0,
    waiting: pending.get(row.id)?.pending ?? 0,
    retrying: pending.get(row.id)?.retrying ?? 0,
    since: earliest(row.failingSince, failed.get(row.id)?.since ?? null),
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
        counted.push(...(await countShard(tx, shard, ofShard, now)));
      return counted.toSorted(byMissing);
    });
  };
}
