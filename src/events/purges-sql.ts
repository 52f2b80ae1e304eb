/**
 * The statements that delete what an erased store left behind, a batch of one store at a time. Each `order by` is that of an
 * index: without it a limit makes the planner hope to meet the store's rows soon, and read the table from its beginning.
 */
import type { Queryable } from '#db/pool.ts';

export type Erased = { shard: number; storeId: number };

/** Where a store's rows stand, and the rest of the index that finds them. */
export type Place = { table: string; order: readonly string[] };

/** An erased store that still has something there. */
export const nextWith = async (sql: Queryable, { table, order }: Place): Promise<Erased | undefined> => {
  const [row] = await sql<Erased[]>`
    select e.shard, e.id as "storeId"
    from erased_store e
    cross join lateral (
      select from ${sql(table)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
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

/** Two statements: as one, it would look for each event in every partition, because it learns the ids too late. */
export const deleteEvents = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const rows = await sql<{ id: number }[]>`
    select id from event where shard = ${shard} and store_id = ${storeId} order by id desc limit ${limit}`;
  const ids = rows.map(({ id }) => id);
  const { count } = await sql`delete from event where shard = ${shard} and id = any(${ids}::bigint[])`;
  return count;
};

export const deleteKeys = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from publish_key where ctid = any(array(
      select ctid from publish_key where shard = ${shard} and store_id = ${storeId}
      order by key limit ${limit} for update skip locked
    ))`;
  return count;
};

export const deleteErasedResources = async (
  sql: Queryable,
  { shard, storeId }: Erased,
  limit: number,
): Promise<number> => {
  const { count } = await sql`
    delete from erased_resource where ctid = any(array(
      select ctid from erased_resource where shard = ${shard} and store_id = ${storeId}
      order by type, id limit ${limit} for update skip locked
    ))`;
  return count;
};

export const deleteTerms = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from subscription_term where ctid = any(array(
      select ctid from subscription_term where shard = ${shard} and store_id = ${storeId}
      order by subscription_id, day limit ${limit} for update skip locked
    ))`;
  return count;
};

export const deleteDays = async (sql: Queryable, { shard, storeId }: Erased, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from revenue_day where ctid = any(array(
      select ctid from revenue_day where shard = ${shard} and store_id = ${storeId}
      order by day limit ${limit} for update skip locked
    ))`;
  return count;
};

/** One row a store, which is nobody's any more. */
export const deleteBook = async (sql: Queryable, { shard, storeId }: Erased): Promise<number> => {
  const { count } = await sql`delete from revenue_book where shard = ${shard} and store_id = ${storeId}`;
  return count;
};
