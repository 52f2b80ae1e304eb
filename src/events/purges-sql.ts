/**
 * SQL that deletes the remaining rows of erased stores in batches, one store per statement. Each `order by` matches an index:
 * without it, `limit` lets the planner choose a sequential scan because it expects to find the store's rows early.
 */
import type { Queryable } from '#db/pool.ts';

export type ErasedStore = { shard: number; storeId: number };

/** A table with rows of stores, and the index columns after `shard, store_id`. */
export type TableIndex = { table: string; order: readonly string[] };

/** Returns an erased store that still has rows in the table. */
export async function findErasedStoreWith(
  sql: Queryable,
  { table, order }: TableIndex,
): Promise<ErasedStore | undefined> {
  const [row] = await sql<ErasedStore[]>`
    select e.shard, e.id as "storeId"
    from erased_store e
    cross join lateral (
      select from ${sql(table)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
    ) as remaining
    limit 1`;
  return row;
}

/** Deletes by `ctid`: by key, each batch would read over the rows that earlier batches deleted. */
export async function deleteResources(sql: Queryable, { shard, storeId }: ErasedStore, limit: number): Promise<number> {
  const { count } = await sql`
    delete from resource where ctid = any(array(
      select ctid from resource where shard = ${shard} and store_id = ${storeId}
      order by type, id limit ${limit} for update skip locked
    ))`;
  return count;
}

/**
 * Deletes in two statements: in one, PostgreSQL would look for each event in every partition, because partitions are pruned
 * before the ids are known.
 */
export async function deleteEvents(sql: Queryable, { shard, storeId }: ErasedStore, limit: number): Promise<number> {
  const rows = await sql<{ id: number }[]>`
    select id from event where shard = ${shard} and store_id = ${storeId} order by id desc limit ${limit}`;
  const ids = rows.map(({ id }) => id);
  const { count } = await sql`delete from event where shard = ${shard} and id = any(${ids}::bigint[])`;
  return count;
}

export async function deleteKeys(sql: Queryable, { shard, storeId }: ErasedStore, limit: number): Promise<number> {
  const { count } = await sql`
    delete from publish_key where ctid = any(array(
      select ctid from publish_key where shard = ${shard} and store_id = ${storeId}
      order by key limit ${limit} for update skip locked
    ))`;
  return count;
}

export async function deleteErasedResources(
  sql: Queryable,
  { shard, storeId }: ErasedStore,
  limit: number,
): Promise<number> {
  const { count } = await sql`
    delete from erased_resource where ctid = any(array(
      select ctid from erased_resource where shard = ${shard} and store_id = ${storeId}
      order by type, id limit ${limit} for update skip locked
    ))`;
  return count;
}

export async function deleteTerms(sql: Queryable, { shard, storeId }: ErasedStore, limit: number): Promise<number> {
  const { count } = await sql`
    delete from subscription_term where ctid = any(array(
      select ctid from subscription_term where shard = ${shard} and store_id = ${storeId}
      order by subscription_id, day limit ${limit} for update skip locked
    ))`;
  return count;
}

export async function deleteDays(sql: Queryable, { shard, storeId }: ErasedStore, limit: number): Promise<number> {
  const { count } = await sql`
    delete from revenue_day where ctid = any(array(
      select ctid from revenue_day where shard = ${shard} and store_id = ${storeId}
      order by day limit ${limit} for update skip locked
    ))`;
  return count;
}

/** Deletes the single row of the store. */
export async function deleteBook(sql: Queryable, { shard, storeId }: ErasedStore): Promise<number> {
  const { count } = await sql`delete from revenue_book where shard = ${shard} and store_id = ${storeId}`;
  return count;
}
