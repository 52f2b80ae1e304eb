import type { FrozenEvent } from '#commerce/document.ts';
import type { Queryable } from '#database/pool.ts';

export type EventRow = FrozenEvent & { storeId: number };

/** What events carry; one that was erased is as one that is gone. */
export const loadEvents = async (sql: Queryable, shard: number, ids: number[]) => sql<EventRow[]>`
  select id, store_id as "storeId", resource_type as type, resource_id as "resourceId", action, version, nonce,
    base_url as "baseUrl", body
  from event
  where shard = ${shard} and id = any (${ids}::bigint[]) and body <> ''`;
