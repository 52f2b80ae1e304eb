/** SQL that reads the names of webhooks which pages show in place of ids. */
import type { Queryable } from '#db/pool.ts';

export type Store = { shard: number; storeId: number };

/** Returns the names of those of these webhooks that are in the store, by id. */
export async function findWebhookNames(
  sql: Queryable,
  { shard, storeId }: Store,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: number; name: string }[]>`
    select id, name from webhook where shard = ${shard} and id = any(${ids}::bigint[]) and store_id = ${storeId}`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Returns the names of the store's webhooks by id; a store has at most 100. */
export async function listWebhookNames(
  sql: Queryable,
  { shard, storeId }: Store,
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: number; name: string }[]>`
    select id, name from webhook where shard = ${shard} and store_id = ${storeId} order by lower(name), id`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}
