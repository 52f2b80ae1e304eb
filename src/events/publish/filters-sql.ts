/** SQL that reads the filters of webhooks. */
import { shardOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';

/** `id`: the hash of the text, which has more digits than a JavaScript number. */
export type StoredFilter = { storeId: number; id: string; type: string; filter: string };

/** Returns each filter of the active webhooks of the stores once per type of resource. */
export async function filtersOfStores(sql: Queryable, storeIds: readonly number[]): Promise<StoredFilter[]> {
  return sql<StoredFilter[]>`
    select distinct w.store_id as "storeId", w.filter_id::text as id, w.event_resource as type, w.filter
    from unnest(${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[]) as s (shard, store_id)
    cross join lateral (
      select w.store_id, w.filter_id, w.event_resource, w.filter from webhook w
      where w.shard = s.shard and w.store_id = s.store_id and w.is_active and w.filter_id is not null
        and w.event_resource is not null
      offset 0
    ) as w`;
}
