/** The statements about all webhooks of a store, or of several. */
import { shardOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';

type Store = { shard: number; storeId: number };

/** Returns the ids of the webhooks of a store. */
export async function listWebhookIds(sql: Queryable, { shard, storeId }: Store): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`select id from webhook where shard = ${shard} and store_id = ${storeId}`;
  return rows.map(({ id }) => id);
}

/** A webhook that can send a test delivery, with the name of its store. */
export type Testable = { id: number; name: string; store: string };

/** Returns the newest webhooks of these stores that have a url and events, without those that apps declare. */
export async function listTestable(sql: Queryable, stores: readonly number[], limit: number): Promise<Testable[]> {
  return sql<Testable[]>`
    select w.id, w.name, s.name as store
    from unnest(${stores.map(shardOf)}::int[], ${stores}::bigint[]) as k (shard, id)
    join store s on s.shard = k.shard and s.id = k.id
    join webhook w on w.shard = k.shard and w.store_id = k.id
    where w.url is not null and w.event_resource is not null and not w.is_for_app
    order by w.id desc limit ${limit}`;
}

/** Deletes the webhooks of a store and returns their ids, except those that apps declare. */
export async function deleteStoreWebhooks(sql: Queryable, { shard, storeId }: Store): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    delete from webhook where shard = ${shard} and store_id = ${storeId} and not is_for_app returning id`;
  return rows.map(({ id }) => id);
}

/** Deletes a webhook whose store was erased, unless it has another epoch. Returns whether it was deleted. */
export async function deleteOfErasedStore(
  sql: Queryable,
  { shard, id, epoch }: { shard: number; id: number; epoch: number },
): Promise<boolean> {
  const { count } = await sql`
    delete from webhook w
    where w.shard = ${shard} and w.id = ${id} and w.epoch = ${epoch}
      and not exists (select from store s where s.shard = w.shard and s.id = w.store_id)`;
  return count > 0;
}
