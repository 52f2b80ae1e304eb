/** The statements that erase a store. */
import type { Queryable } from '#db/pool.ts';

/** Its revision; undefined where there is no such store. Nothing can be made in it until the transaction ends. */
export const lockForErasure = async (sql: Queryable, shard: number, id: number): Promise<number | undefined> => {
  const [row] = await sql<{ revision: number }[]>`
    select revision from store where shard = ${shard} and id = ${id} for update`;
  return row?.revision;
};

export const deleteMembers = async (sql: Queryable, shard: number, storeId: number): Promise<void> => {
  await sql`delete from membership where shard = ${shard} and store_id = ${storeId}`;
};

/** So that housekeeping finds what the store has left in big tables. */
export const insertErased = async (
  sql: Queryable,
  store: { shard: number; storeId: number; now: Date },
): Promise<void> => {
  await sql`insert into erased_store (shard, id, date_erased) values (${store.shard}, ${store.storeId}, ${store.now})`;
};

export const deleteStore = async (sql: Queryable, shard: number, id: number): Promise<void> => {
  await sql`delete from store where shard = ${shard} and id = ${id}`;
};

/** What a store may leave behind, and the rest of the index that finds it. */
const LEFT_BEHIND: readonly { table: string; order: readonly string[] }[] = [
  { table: 'resource', order: ['type', 'id'] },
  { table: 'event', order: ['id'] },
  { table: 'publish_key', order: ['key'] },
  { table: 'erased_resource', order: ['type', 'id'] },
  { table: 'subscription_term', order: ['subscription_id', 'day'] },
  { table: 'revenue_day', order: ['day'] },
  { table: 'revenue_book', order: ['store_id'] },
];

/** As `not exists` the planner may read the big tables whole; this asks an index of each store. */
const isEmptied = (sql: Queryable) =>
  LEFT_BEHIND.reduce(
    (before, { table, order }) => sql`${before} and (
      select 1 from ${sql(table)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
    ) is null`,
    sql`true`,
  );

/** Forgets the stores that were erased before and of which nothing is left. */
export const deleteEmptied = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from erased_store where (shard, id) in (
      select e.shard, e.id from erased_store e
      where e.date_erased <= ${before} and ${isEmptied(sql)}
      limit ${limit} for update skip locked
    )`;
  return count;
};
