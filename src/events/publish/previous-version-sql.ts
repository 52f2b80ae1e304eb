/** SQL that reads and locks the stored versions that a batch depends on. */
import type { Queryable } from '#db/pool.ts';

/** `datedAt`: the newest date_modified so far. */
export type PreviousVersion = { storeId: number; type: string; id: string; datedAt: Date | null; body: string };

/** Returns the stored versions and locks them until the transaction ends. `keys` must be in lock order. */
export async function lockPreviousVersions(
  sql: Queryable,
  keys: { shard: number[]; storeId: number[]; type: string[]; id: string[] },
): Promise<PreviousVersion[]> {
  return sql<PreviousVersion[]>`
  select r.store_id as "storeId", r.type, r.id, r.dated_at as "datedAt", r.body
  from unnest(${keys.shard}::smallint[], ${keys.storeId}::bigint[], ${keys.type}::text[], ${keys.id}::text[])
    with ordinality as a (shard, store_id, type, id, n)
  cross join lateral (
    select * from resource r
    where r.shard = a.shard and r.store_id = a.store_id and r.type = a.type and r.id = a.id
    limit 1 for update
  ) as r
  order by a.n`;
}
