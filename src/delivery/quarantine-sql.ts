import type { Queryable } from '#db/pool.ts';

export type Marker = { shard: number; deliveryId: number };
/** `fence`: the token of the owner that sent it last. */
export type StoredMarker = Marker & { fence: number; crashCount: number };

/** Returns the deliveries that were in flight when owners of these shards crashed. */
export async function loadMarkers(sql: Queryable, shards: readonly number[]) {
  return sql<StoredMarker[]>`
  select shard, delivery_id as "deliveryId", fence, deaths as "crashCount"
  from delivery_suspect where shard = any (${shards}::smallint[])`;
}

/**
 * Marks deliveries as in flight before they are sent, if the fencing tokens are current; existing markers keep their
 * crash count. Returns the shards that are still owned: deliveries of the others must not be sent.
 */
export async function insertMarkers(
  sql: Queryable,
  worker: number,
  fences: { shard: number[]; fence: number[] },
  markers: readonly Marker[],
): Promise<number[]> {
  const shards = markers.map(({ shard }) => shard);
  const ids = markers.map(({ deliveryId }) => deliveryId);
  const owned = await sql<{ shard: number }[]>`
    with owned as materialized (
      select l.shard, l.fence
      from shard_lease l
      join unnest(${fences.shard}::smallint[], ${fences.fence}::bigint[]) as f (shard, fence) on f.shard = l.shard
      where l.owner = ${worker} and l.fence = f.fence
      order by l.shard
      for share of l
    ), marked as (
      insert into delivery_suspect (shard, delivery_id, fence)
      select n.shard, n.delivery_id, owned.fence
      from unnest(${shards}::smallint[], ${ids}::bigint[]) as n (shard, delivery_id)
      join owned on owned.shard = n.shard
      order by n.shard, n.delivery_id
      on conflict (shard, delivery_id) do update set fence = excluded.fence
    )
    select shard from owned`;
  return owned.map(({ shard }) => shard);
}
