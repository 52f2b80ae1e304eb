import type { Queryable } from '#db/pool.ts';

export type Marker = { shard: number; deliveryId: number };
/** `fence`: of the owner who sent it last. */
export type StoredMarker = Marker & { fence: number; crashCount: number };

/** What was in flight when owners of these shards died. */
export const loadMarkers = async (sql: Queryable, shards: readonly number[]) => sql<StoredMarker[]>`
  select shard, delivery_id as "deliveryId", fence, deaths as "crashCount" from delivery_suspect where shard = any (${shards}::smallint[])`;

/**
 * Notes what is about to be sent, under the shards' fences; what is marked already keeps its deaths. Answers the shards that
 * are still owned: what is for the others must not be sent.
 */
export const insertMarkers = async (
  sql: Queryable,
  worker: number,
  fences: { shard: number[]; fence: number[] },
  markers: readonly Marker[],
): Promise<number[]> => {
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
};
