import type { FrozenEvent } from '#catalog/document.ts';
import type { Queryable } from '#db/pool.ts';

export type EventRow = FrozenEvent & { storeId: number };

/**
 * Returns events by shard and id in the order of `ids`, without erased and deleted ones: the first, and further ones up to `limitBytes`
 * of text, because the whole result is in memory at once.
 */
export async function loadEvents(
  sql: Queryable,
  shards: number[],
  ids: number[],
  limitBytes = Number.MAX_SAFE_INTEGER,
) {
  return sql<EventRow[]>`
  select id, store_id as "storeId", resource_type as type, resource_id as "resourceId", action, version, nonce,
    base_url as "baseUrl", date_created as "dateCreated", body
  from (
    select e.*, requested.at, sum(octet_length(e.body)) over (order by requested.at) - octet_length(e.body) as before
    from unnest(${shards}::smallint[], ${ids}::bigint[]) with ordinality as requested (shard, id, at)
    cross join lateral (
      select * from event e where e.shard = requested.shard and e.id = requested.id and e.body <> '' limit 1
    ) as e
  ) as sized
  where before < ${limitBytes}::bigint
  order by at`;
}
