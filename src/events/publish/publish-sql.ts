/** The statements beside `publishBatch`: filters of webhooks, idempotency keys, locked versions, and sample events. */
import { shardOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';
import { nextDeliveryId } from '#db/numbers.ts';
import type { SampleEvent } from './sample.ts';

/**
 * Inserts a test event, which belongs to no resource: it creates no version and is in no chain. Returns whether the store
 * exists; the store is locked until the transaction ends, so that its erasure deletes this event too.
 */
export async function insertSample(sql: Queryable, event: SampleEvent, shard: number): Promise<boolean> {
  const { id, storeId, type, resourceId, action, version, nonce, timeZone, baseUrl, dateCreated, body } = event;
  const { count } = await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select s.shard, ${id}, s.id, ${type}, ${resourceId}, ${action}, ${version}, ${nonce}, ${timeZone}, ${baseUrl},
      ${dateCreated}, ${body}
    from store s
    where s.shard = ${shard} and s.id = ${storeId}
    for key share of s`;
  return count === 1;
}

/**
 * Inserts a delivery for the pull client of the webhook, even if the webhook is disabled. Returns its id; undefined if there is
 * no such pull webhook.
 */
export async function insertPullSample(
  sql: Queryable,
  { shard, webhookId, event, day }: { shard: number; webhookId: number; event: SampleEvent; day: number },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select w.shard, ${nextDeliveryId(sql, day, sql`w.shard`)}, w.store_id, w.id, w.epoch,
      ${event.id}, 'infinity'
    from webhook w
    where w.shard = ${shard} and w.id = ${webhookId} and w.is_held
    returning id`;
  return row?.id;
}

// SQL that reads and locks the stored versions that a batch depends on.

/** `newestDate`: the newest date_modified so far, or the later time of an erasure. `body`: null if the resource does not exist. */
type PreviousVersion = {
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

// SQL that reads idempotency keys; `publishBatch` inserts them.

type KeyColumns = { shard: number[]; storeId: number[]; key: string[] };
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
