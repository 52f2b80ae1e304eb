/** What receivers answered to events that were erased: it may repeat what it was told. */
import type { Queryable } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';

/**
 * Empties the answers to some events of one store; that there were attempts, when and how they ended stays. A delivery is
 * never older than its event, so that earlier days are not looked through, and the days that are have a small index each. Answers
 * the events of which a listener may still say something: it may have been handed them long before.
 */
export const blankAnswers = async (
  sql: Queryable,
  { shard, storeId, ids }: { shard: number; storeId: number; ids: readonly number[] },
): Promise<number[]> => {
  const rows = await sql<{ id: number; eventId: number; isPull: boolean }[]>`
    select id, event_id as "eventId", due_at = 'infinity' as "isPull" from delivery
    where shard = ${shard} and store_id = ${storeId} and event_id = any(${ids}::bigint[])
    union all
    select d.id, d.event_id, false from unnest(${ids}::bigint[]) as erased (id)
    join delivery_done d on d.event_id = erased.id and d.shard = ${shard} and d.store_id = ${storeId}
    where d.id >= ${firstIdOfDay(dayOfId(Math.min(...ids)))}`;
  const deliveries = rows.map(({ id }) => id);
  await sql`
    update attempt set response_headers = null, response_body = null
    where shard = ${shard} and delivery_id = any(${deliveries}::bigint[])
      and (response_headers is not null or response_body is not null)`;
  return [...new Set(rows.flatMap(({ isPull, eventId }) => (isPull ? [eventId] : [])))];
};
