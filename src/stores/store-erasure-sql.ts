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
