/** SQL that reads whether something has happened in a store. */
import type { Queryable } from '#db/pool.ts';
import { firstIdOfDay } from '#core/ids.ts';

/** Attempts of older deliveries are rare, and would make the statement read the indexes of all days. */
const DAYS_BACK = 3;
/** Of each webhook and table. An attempt that many later ones overtake is not seen, unless its delivery ended. */
const ATTEMPTS_READ = 20;
const PENDING_READ_MAX = 1_000;

/**
 * Returns a text that changes with events of the store, with attempts of its webhooks that are among the latest to start, and with the
 * number of pending deliveries; of deliveries that are at most three days old on the day `today`. Concurrent attempts are recorded in
 * another order than they started in, so the latest time alone would miss a timeout beside fast successes.
 */
export async function readActivity(
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
  today: number,
): Promise<string> {
  const from = firstIdOfDay(Math.max(0, today - DAYS_BACK));
  const [row] = await sql<{ activity: string }[]>`
    select concat_ws('-',
      (select e.id from event e where e.shard = ${shard} and e.store_id = ${storeId} and e.id >= ${from} order by e.id desc limit 1),
      (
        select sum(latest.seen + waiting.seen) from webhook w
        cross join lateral (
          select coalesce(sum(hashint8(a.id) + a.n::bigint), 0) as seen from (
            (
              select a.delivery_id as id, a.n, a.date_started from attempt a
              where a.shard = ${shard} and a.webhook_id = w.id and a.delivery_id >= ${from}
              order by a.date_started desc limit ${ATTEMPTS_READ}
            ) union all (
              select d.id, d.attempts, d.date_started from delivery_done d
              where d.shard = ${shard} and d.webhook_id = w.id and d.id >= ${from} and d.date_started > '-infinity'
              order by d.date_started desc limit ${ATTEMPTS_READ}
            )
          ) as a
        ) as latest
        cross join lateral (
          select count(*) as seen from (
            select from delivery d
            where d.shard = ${shard} and d.webhook_id = w.id and d.due_at > '-infinity' limit ${PENDING_READ_MAX}
          ) as d
        ) as waiting
        where w.shard = ${shard} and w.store_id = ${storeId}
      )) as activity`;
  return row?.activity ?? '';
}
