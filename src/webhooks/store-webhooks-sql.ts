/** The statements about all webhooks of a store. */
import type { Queryable } from '#db/pool.ts';

type Store = { shard: number; storeId: number };

/** Returns the ids of the webhooks of a store. */
export async function listWebhookIds(sql: Queryable, { shard, storeId }: Store): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`select id from webhook where shard = ${shard} and store_id = ${storeId}`;
  return rows.map(({ id }) => id);
}

/** Deletes the webhooks of a store and returns their ids. */
export async function deleteStoreWebhooks(sql: Queryable, { shard, storeId }: Store): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    delete from webhook where shard = ${shard} and store_id = ${storeId} returning id`;
  return rows.map(({ id }) => id);
}
