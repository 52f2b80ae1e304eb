import type { Queryable } from '#db/pool.ts';

export type Note = { shard: number; deliveryId: number };
/** `fence`: of the owner who sent it last. */
export type Noted = Note & { fence: number; deaths: number };

/** What was in flight when owners of these shards died. */
export const loadNotes = async (sql: Queryable, shards: readonly number[]) => sql<Noted[]>`
  select shard, delivery_id as "deliveryId", fence, deaths from delivery_suspect where shard = any (${shards}::smallint[])`;

/**
 * Notes what is about to be sent, under the shards' fences; what is noted already keeps its deaths. Answers the shards that
 * are still held: what is for the others must not be sent.
 */
export const insertNotes = async (
  sql: Queryable,
  worker: number,
  fences: { shard: number[]; fence: number[] },
  notes: readonly Note[],
): Promise<number[]> => {
  const shards = notes.map(({ shard }) => shard);
  const ids = notes.map(({ deliveryId }) => deliveryId);
  const held = await sql<{ shard: number }[]>`
    with held as materialized (
      select l.shard, l.fence
      from shard_lease l
      join unnest(${fences.shard}::smallint[], ${fences.fence}::bigint[]) as f (shard, fence) on f.shard = l.shard
      where l.owner = ${worker} and l.fence = f.fence
      order by l.shard
      for share of l
    ), noted as (
      insert into delivery_suspect (shard, delivery_id, fence)
      select n.shard, n.delivery_id, held.fence
      from unnest(${shards}::smallint[], ${ids}::bigint[]) as n (shard, delivery_id)
      join held on held.shard = n.shard
      order by n.shard, n.delivery_id
      on conflict (shard, delivery_id) do update set fence = excluded.fence
    )
    select shard from held`;
  return held.map(({ shard }) => shard);
};
