/** SQL that reads idempotency keys; `publishBatch` inserts them. */
import type { Queryable } from '#db/pool.ts';

export type KeyColumns = { shard: number[]; storeId: number[]; key: string[] };
export type KnownKey = { storeId: number; key: string; fingerprint: Buffer; eventIds: number[] };

/** Returns the stored keys that have not expired; none of an erased store. */
export async function findKeys(sql: Queryable, keys: KeyColumns, staleAt: Date): Promise<KnownKey[]> {
  return sql<KnownKey[]>`
  select k.store_id as "storeId", k.key, k.fingerprint, k.event_ids as "eventIds"
  from unnest(${keys.shard}::smallint[], ${keys.storeId}::bigint[], ${keys.key}::text[]) as a (shard, store_id, key)
  cross join lateral (select from store s where s.shard = a.shard and s.id = a.store_id limit 1) as s
  cross join lateral (
    select * from publish_key k where k.shard = a.shard and k.store_id = a.store_id and k.key = a.key limit 1
  ) as k
  where k.date_created > ${staleAt}`;
}
