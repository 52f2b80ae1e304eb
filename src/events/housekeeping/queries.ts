/**
 * The statements that delete what an erased store left behind, a batch of one store at a time. Each `order by` is that of an
 * index: without it a limit makes the planner hope to meet the store's rows soon, and read the table from its beginning.
 */
import type { Queryable } from '#database/pool.ts';

export type Erased = { shard: number; storeId: number };

/** An erased store that still has resources. */
export const nextWithResources = async (sql: Queryable): Promise<Erased | undefined> => {
  const [row] = await sql<Erased[]>`
    select e.shard, e.id as "storeId"
    from erased_store e
    cross join lateral (
      select from resource r where r.shard = e.shard and r.store_id = e.id order by r.type, r.id limit 1
    ) as left_behind
    limit 1`;
  return row;
};

/** By their places in the table: by their key, each batch would read over those that are gone already. */
export const deleteResources = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from resource where ctid = any(array(
      select ctid from resource where shard = ${shard} and store_id = ${storeId}
      order by type, id limit ${limit} for update skip locked
    ))`;
  return count;
};

/** An erased store that still has events. */
export const nextWithEvents = async (sql: Queryable): Promise<Erased | undefined> => {
  const [row] = await sql<Erased[]>`
    select e.shard, e.id as "storeId"
    from erased_store e
    cross join lateral (
      select from event v where v.shard = e.shard and v.store_id = e.id order by v.id desc limit 1
    ) as left_behind
    limit 1`;
  return row;
};

/** Two statements: as one, it would look for each event in every partition, because it learns the ids too late. */
export const deleteEvents = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const rows = await sql<{ id: number }[]>`
    select id from event where shard = ${shard} and store_id = ${storeId} order by id desc limit ${limit}`;
  const ids = rows.map(({ id }) => id);
  const { count } = await sql`delete from event where shard = ${shard} and id = any(${ids}::bigint[])`;
  return count;
};
