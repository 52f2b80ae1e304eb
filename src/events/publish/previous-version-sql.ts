/** SQL that reads and locks the stored versions that a batch depends on. */
import type { Queryable } from '#db/pool.ts';

/** `newestDate`: the newest date_modified so far, or the later time of an erasure. `body`: null if the resource does not exist. */
export type PreviousVersion = {
  storeId: number;
  type: string;
  id: string;
  newestDate: Date | null;
  body: string | null;
};

/** Returns one row for each key, and locks the stored versions until the transaction ends. `keys` must be in lock order. */
export async function lockPreviousVersions(
  sql: Queryable,
  keys: { shard: number[]; storeId: number[]; type: string[]; id: string[] },
): Promise<PreviousVersion[]> {
  return sql<PreviousVersion[]>`
  select a.store_id as "storeId", a.type, a.id, greatest(r.dated_at, e.date_erased) as "newestDate", r.body
  from unnest(${keys.shard}::smallint[], ${keys.storeId}::bigint[], ${keys.type}::text[], ${keys.id}::text[])
    with ordinality as a (shard, store_id, type, id, n)
  left join lateral (
    select * from resource r
    where r.shard = a.shard and r.store_id = a.store_id and r.type = a.type and r.id = a.id
    limit 1 for update
  ) as r on true
  left join lateral (
    select e.date_erased from erased_resource e
    where e.shard = a.shard and e.store_id = a.store_id and e.type = a.type and e.id = a.id
    limit 1
  ) as e on true
  order by a.n`;
}
