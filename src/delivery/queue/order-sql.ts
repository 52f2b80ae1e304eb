/** The statements by which deliveries of one resource wait for each other. */
import type { Queryable } from '#db/pool.ts';
import { ownedUnder, type Fences } from '../leases/leases-sql.ts';

/** Due deliveries of webhooks with an ordering, as columns. */
export type DueColumns = { shard: number[]; id: number[]; epoch: number[] };

/**
 * Postpones deliveries that have to wait: another delivery of the resource, with a lower version, is pending in the same epoch.
 * Returns all deliveries of shards that are owned under these fencing tokens, each with its new due time if it waits: that of the
 * first pending one of the resource, or `recheckAt` if that is later.
 *
 * The first one is locked. So it either has ended before this statement reads it, or its end waits for this statement, and
 * `releaseNext` (record/record-sql.ts) then finds what was postponed.
 */
export async function postponeWaiting(
  sql: Queryable,
  worker: number,
  fences: Fences,
  due: DueColumns,
  recheckAt: Date,
): Promise<{ id: number; dueAt: Date | null }[]> {
  return sql<{ id: number; dueAt: Date | null }[]>`
    with ${ownedUnder(sql, worker, fences)}, due as materialized (
      select i.shard, i.id, i.epoch, o.webhook_id, o.resource_key, o.version
      from unnest(${due.shard}::smallint[], ${due.id}::bigint[], ${due.epoch}::int[]) as i (shard, id, epoch)
      join owned on owned.shard = i.shard
      left join lateral (
        select * from delivery_order o where o.shard = i.shard and o.delivery_id = i.id limit 1
      ) as o on true
    ), waiting as materialized (
      select i.id, e.due_at, p.place
      from due i
      cross join lateral (
        select d.due_at
        from delivery_order o
        cross join lateral (
          select d.due_at from delivery d
          where d.shard = o.shard and d.id = o.delivery_id and d.epoch = i.epoch
          limit 1 for share
        ) as d
        where o.shard = i.shard and o.webhook_id = i.webhook_id and o.resource_key = i.resource_key and o.version < i.version
        order by o.version
        limit 1
      ) as e
      cross join lateral (
        select d.ctid as place from delivery d where d.shard = i.shard and d.id = i.id limit 1 for update
      ) as p
    ), postponed as (
      update delivery d set due_at = greatest(w.due_at, ${recheckAt}) from waiting w where d.ctid = w.place
      returning d.id, d.due_at
    )
    select due.id, p.due_at as "dueAt" from due left join postponed p on p.id = due.id`;
}

/** Deletes rows of deliveries that have ended otherwise than by an attempt. */
export async function purgeOrder(sql: Queryable, limit: number): Promise<number> {
  const { count } = await sql`
    delete from delivery_order where ctid = any(array(
      select o.ctid from delivery_order o
      where not exists (select from delivery d where d.shard = o.shard and d.id = o.delivery_id)
      limit ${limit} for update of o skip locked
    ))`;
  return count;
}
