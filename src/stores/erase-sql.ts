/** SQL that erases a store. */
import type { Queryable } from '#db/pool.ts';

/**
 * Locks the store until the transaction ends, so that nothing can be created in it. Returns its revision; undefined if it does
 * not exist.
 */
export async function lockForErasure(sql: Queryable, shard: number, id: number): Promise<number | undefined> {
  const [row] = await sql<{ revision: number }[]>`
    select revision from store where shard = ${shard} and id = ${id} for update`;
  return row?.revision;
}

export async function deleteMembers(sql: Queryable, shard: number, storeId: number): Promise<void> {
  await sql`delete from membership where shard = ${shard} and store_id = ${storeId}`;
}

/** Records the erasure, so that purges delete the rows of the store in large tables. */
export async function insertErased(
  sql: Queryable,
  store: { shard: number; storeId: number; now: Date },
): Promise<void> {
  await sql`insert into erased_store (shard, id, date_erased) values (${store.shard}, ${store.storeId}, ${store.now})`;
}

export async function deleteStore(sql: Queryable, shard: number, id: number): Promise<void> {
  await sql`delete from store where shard = ${shard} and id = ${id}`;
}

/** Tables that may still contain rows of an erased store, with the index columns after `shard, store_id`. */
const PURGED_TABLES: readonly { table: string; order: readonly string[] }[] = [
  { table: 'resource', order: ['type', 'id'] },
  { table: 'event', order: ['id'] },
  { table: 'publish_key', order: ['key'] },
  { table: 'erased_resource', order: ['type', 'id'] },
  { table: 'subscription_term', order: ['subscription_id', 'day'] },
  { table: 'revenue_day', order: ['day'] },
  { table: 'revenue_book', order: ['store_id'] },
];

/**
 * Uses scalar subqueries, which look up an index per store; with `not exists` the planner may read the large tables completely.
 */
const isEmptied = (sql: Queryable) =>
  PURGED_TABLES.reduce(
    (before, { table, order }) => sql`${before} and (
      select 1 from ${sql(table)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
    ) is null`,
    sql`true`,
  );

/** Deletes the records of stores that were erased at `before` or earlier and have no rows left. */
export async function deleteEmptied(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from erased_store where (shard, id) in (
      select e.shard, e.id from erased_store e
      where e.date_erased <= ${before} and ${isEmptied(sql)}
      limit ${limit} for update skip locked
    )`;
  return count;
}
