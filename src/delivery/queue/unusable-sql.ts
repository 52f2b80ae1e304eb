/** Counts an hour during which a webhook was unusable. */
import type { Queryable } from '#db/pool.ts';

/** The position of a delivery in its lane. `dueAt` is PostgreSQL's text, because a `Date` truncates times to milliseconds. */
export type Position = { dueAt: string; id: number };

/** The first `limit` due deliveries after `after`. Deliveries with `most` faults are about to end and are not counted. */
export type Hour = { webhookId: number; after: Position | null; faults: number; most: number; limit: number };

const BEGINNING: Position = { dueAt: '1970-01-01T00:00:00Z', id: 0 };

/** Adds the faults under the shard's fencing token. Returns the number of deliveries read, and the last of them. */
export async function countFaults(
  sql: Queryable,
  worker: number,
  { shard, fence }: { shard: number; fence: number },
  { webhookId, after, faults, most, limit }: Hour,
  now: Date,
): Promise<{ seen: number; last: Position | null }> {
  const { dueAt, id } = after ?? BEGINNING;
  const [last] = await sql<(Position & { seen: number })[]>`
    with lease as materialized (
      select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share
    ), due as materialized (
      select ctid as row_id, due_at, id, faults from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and (due_at, id) > (${dueAt}::timestamptz, ${id}::bigint)
        and due_at > '-infinity' and due_at <= ${now} and exists (select from lease)
      order by due_at, id
      limit ${limit}
    ), raised as (
      update delivery set faults = faults + ${faults} where ctid = any(array(select row_id from due where faults < ${most}))
    )
    select due_at::text as "dueAt", id, (select count(*)::int from due) as seen from due
    order by due_at desc, id desc limit 1`;
  return { seen: last?.seen ?? 0, last: last ?? null };
}
