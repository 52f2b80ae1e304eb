/** SQL that writes versions of resources without events. */
import type { Queryable } from '#db/pool.ts';
import type { SentVersion } from '../publish/publish-request.ts';
import { dayOf, type StoreKey } from '#core/ids.ts';
import { erasedVersion, NO_EVENT, parentIdOf } from '../publish/publish-sql.ts';
import { decisiveDate } from '../publish/rows.ts';

export type LoadedVersion = { type: string; resourceId: string; version: number };

/**
 * Writes the versions that are newer than the stored ones, and returns them. They are in lock order, each resource once. Not written are those of a store that does not exist, and
 * those that are undated, or dated before the erasure of their resource. A version replaces a stored one only if both have dates: without
 * a date nothing shows that it is newer. Fails with SQLSTATE HL001 if a resource is erased concurrently.
 */
export async function loadVersions(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  versions: readonly SentVersion[],
  { now, baseUrl }: { now: Date; baseUrl: string },
): Promise<LoadedVersion[]> {
  const erased = erasedVersion(sql);
  return sql<LoadedVersion[]>`
  with input as materialized (
    select i.*, s.time_zone, coalesce(e.version, 0) as erased_version
    from unnest(
      ${versions.map(({ type }) => type)}::text[], ${versions.map(({ resourceId }) => resourceId)}::text[],
      ${versions.map(({ modifiedAt }) => modifiedAt ?? now)}::timestamptz[],
      ${versions.map((version) => decisiveDate(version) !== null)}::boolean[], ${versions.map(({ body }) => body)}::text[],
      ${versions.map(({ modifiedAt }) => dayOf(modifiedAt ?? now))}::int[]
    ) as i (type, id, modified_at, is_dated, body, modified_day)
    cross join lateral (select s.time_zone from store s where s.shard = ${shard} and s.id = ${storeId} limit 1) as s
    left join lateral (
      select e.version, e.date_erased from erased_resource e
      where e.shard = ${shard} and e.store_id = ${storeId} and e.type = i.type and e.id = i.id limit 1
    ) as e on true
    where e.date_erased is null or (i.is_dated and i.modified_at >= e.date_erased)
  ), latest as (
    insert into resource as r
      (shard, store_id, type, id, version, modified_at, is_dated, dated_at, event_id, head_event_id, time_zone, base_url, body,
        modified_day, parent_id)
    select ${shard}, ${storeId}, type, id, 1 + erased_version, modified_at, is_dated, case when is_dated then modified_at end,
      ${NO_EVENT}, ${NO_EVENT}, time_zone, ${baseUrl}, body,
      modified_day, ${parentIdOf(sql, sql`null`)}
    from input i
    order by type, id
    on conflict (shard, store_id, type, id) do update set
      version = r.version + 1, modified_at = excluded.modified_at, dated_at = excluded.dated_at, event_id = excluded.event_id,
      head_event_id = coalesce(r.head_event_id, r.event_id), time_zone = excluded.time_zone, base_url = excluded.base_url,
      body = excluded.body, date_deleted = null
    where r.is_dated and excluded.is_dated and excluded.modified_at > r.dated_at
    returning r.shard, r.store_id, r.type, r.id, r.version, ${erased} as floor
  ), checked as materialized (
    select unless_erased(array_agg(shard), array_agg(store_id), array_agg(type), array_agg(id), array_agg(floor)) as is_valid
    from latest
  )
  select l.type, l.id as "resourceId", l.version from latest l where (select is_valid from checked)`;
}
