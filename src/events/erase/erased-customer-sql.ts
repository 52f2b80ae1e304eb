/** SQL that sends `customer/erased` to the webhooks that may have got data of the customer. */
import type { ResourceType } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import { resourceKey } from '../publish/publish-sql.ts';

type Reader = { id: number; type: ResourceType | null; query: string | null };

/** Returns the active webhooks of a store with an endpoint or a pull client, at most as many as a store may have. */
export async function listReaders(
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
): Promise<Reader[]> {
  return sql<Reader[]>`
    select id, event_resource as type, query from webhook
    where shard = ${shard} and store_id = ${storeId} and is_active and (url is not null or is_held)
    order by id`;
}

export type ErasureEvent = {
  id: number;
  action: string;
  version: number;
  nonce: number;
  body: string;
  baseUrl: string;
  day: number;
  now: Date;
};

type ErasureDelivery = { deliveryId: number; webhookId: number; epoch: number; isHeld: boolean };

/**
 * Inserts the event, which is in no chain of events, and a delivery for each of the webhooks that is still active; their filters do
 * not matter.
 */
export async function insertErasureEvent(
  sql: Queryable,
  { shard, storeId, type, id: resourceId }: ResourceKey,
  event: ErasureEvent,
  webhookIds: readonly number[],
): Promise<ErasureDelivery[]> {
  const { id, action, version, nonce, body, baseUrl, day, now } = event;
  return sql<ErasureDelivery[]>`
    with written as (
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      select s.shard, ${id}, s.id, ${type}, ${resourceId}, ${action}, ${version}, ${nonce}, s.time_zone, ${baseUrl}, ${now}, ${body}
      from store s where s.shard = ${shard} and s.id = ${storeId}
      returning shard, id, store_id, resource_type, resource_id, version
    ), readers as materialized (
      select w.id, w.epoch, w.is_held, w.ordering is not null as is_ordered from webhook w
      where w.shard = ${shard} and w.id = any(${webhookIds}::bigint[]) and w.is_active and (w.url is not null or w.is_held)
      order by w.id
    ), sent as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select e.shard, ${nextDeliveryId(sql, day, sql`e.shard`)}, e.store_id, r.id, r.epoch, e.id,
        case when r.is_held then 'infinity' else ${now}::timestamptz end
      from written e cross join readers r
      returning shard, id, webhook_id, epoch, due_at
    ), ordered as (
      insert into delivery_order (shard, delivery_id, webhook_id, resource_key, version)
      select d.shard, d.id, d.webhook_id, ${resourceKey(sql, sql`e`)}, e.version
      from sent d cross join written e
      where d.webhook_id in (select r.id from readers r where r.is_ordered)
    )
    select id as "deliveryId", webhook_id as "webhookId", epoch, due_at = 'infinity' as "isHeld" from sent order by id`;
}
