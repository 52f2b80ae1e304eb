/** Erases responses to erased events: a response may repeat data of the request. */
import type { Queryable } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';

/**
 * Erases the responses to events of one store; attempts, their times and outcomes remain. A delivery is never older
 * than its event, so earlier days are not scanned, and each later day has a small index. Returns the events with
 * unanswered pull deliveries: a listener may have received them and still answer.
 */
export async function blankAnswers(
  sql: Queryable,
  { shard, storeId, ids }: { shard: number; storeId: number; ids: readonly number[] },
): Promise<number[]> {
  const ended = sql`
    d.event_id = erased.id and d.shard = ${shard} and d.store_id = ${storeId} and d.id >= ${firstIdOfDay(dayOfId(Math.min(...ids)))}`;
  const rows = await sql<{ id: number; eventId: number; isPull: boolean }[]>`
    select id, event_id as "eventId", due_at = 'infinity' as "isPull" from delivery
    where shard = ${shard} and store_id = ${storeId} and event_id = any(${ids}::bigint[])
    union all
    select d.id, d.event_id, false from unnest(${ids}::bigint[]) as erased (id) join delivery_done d on ${ended}`;
  const deliveries = rows.map(({ id }) => id);
  await sql`
    update attempt set response_headers = null, response_body = null
    where shard = ${shard} and delivery_id = any(${deliveries}::bigint[])
      and (response_headers is not null or response_body is not null)`;
  // After the pending ones were read: a delivery that ended since is among these.
  await sql`
    update delivery_done d set response_headers = null, response_body = null
    from unnest(${ids}::bigint[]) as erased (id)
    where ${ended} and (d.response_headers is not null or d.response_body is not null)`;
  return [...new Set(rows.flatMap(({ isPull, eventId }) => (isPull ? [eventId] : [])))];
}
