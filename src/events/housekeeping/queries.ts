/** The statements that delete what an erased store left behind, a batch of one store at a time. */
import type { Queryable } from '#database/pool.ts';

export type Erased = { shard: number; storeId: number };

/** An erased store that still has resources. */
export const nextWithResources = async (sql: Queryable): Promise<Erased | undefined> => {
  const [row] = await sql<Erased[]>`
    select e.shard, e.id as "storeId" from erased_store e
    where exists (select from resource r where r.shard = e.shard and r.store_id = e.id)
    limit 1`;
  return row;
};

/** By their places in the table: by their key, each batch would read over those that are gone already. */
export const deleteResources = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from resource where ctid = any(array(
      select ctid from resource where shard = ${shard} and store_id = ${storeId}
      limit ${limit} for update skip locked
    ))`;
  return count;
};

/** An erased store that still has events. */
export const nextWithEvents = async (sql: Queryable): Promise<Erased | undefined> => {
  const [row] = await sql<Erased[]>`
    select e.shard, e.id as "storeId" from erased_store e
    where exists (select from event v where v.shard = e.shard and v.store_id = e.id)
    limit 1`;
  return row;
};

export const deleteEvents = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from event where shard = ${shard} and id = any(array(
      select id from event where shard = ${shard} and store_id = ${storeId}
      order by id desc limit ${limit}
    ))`;
  return count;
};
