/** SQL of the search of a store's pages: look-ups by key, of this store alone. */
import type { Queryable } from '#db/pool.ts';
import type { ResourceType } from '#catalog/catalog.ts';
import type { Store } from './lists-sql.ts';

/** Returns those of these types of which the store has a resource with this id. */
export async function findTypesOfResource(
  sql: Queryable,
  { shard, storeId }: Store,
  { types, id }: { types: readonly ResourceType[]; id: string },
): Promise<ResourceType[]> {
  const rows = await sql<{ type: ResourceType }[]>`
    select r.type from unnest(${types}::text[]) as t (type) cross join lateral (
      select type from resource where shard = ${shard} and store_id = ${storeId} and type = t.type and id = ${id} limit 1
    ) as r`;
  return rows.map(({ type }) => type);
}

type EventHit = { id: number; type: ResourceType; resourceId: string; action: string };

export async function findEventHit(
  sql: Queryable,
  { shard, storeId }: Store,
  id: number,
): Promise<EventHit | undefined> {
  const [row] = await sql<EventHit[]>`
    select id, resource_type as type, resource_id as "resourceId", action from event
    where shard = ${shard} and id = ${id} and store_id = ${storeId}`;
  return row;
}

type DeliveryHit = { id: number; webhookId: number };

/** Returns the delivery with this id, of a webhook that exists. */
export async function findDeliveryHit(
  sql: Queryable,
  { shard, storeId }: Store,
  id: number,
): Promise<DeliveryHit | undefined> {
  const [row] = await sql<DeliveryHit[]>`
    select w.id as "webhookId", d.id from (
      select id, webhook_id from delivery where shard = ${shard} and id = ${id} and store_id = ${storeId}
      union all
      select id, webhook_id from delivery_done where shard = ${shard} and id = ${id} and store_id = ${storeId}
    ) as d
    join webhook w on w.shard = ${shard} and w.id = d.webhook_id and w.store_id = ${storeId}
    limit 1`;
  return row;
}

type WebhookHit = { id: number; name: string };

/** Returns the webhooks with this id or url, whose query is stored apart and not compared; a store has at most 100. */
export function findWebhookHits(
  sql: Queryable,
  { shard, storeId }: Store,
  { id, url }: { id: number | null; url: string | null },
): Promise<WebhookHit[]> {
  return sql<WebhookHit[]>`
    select id, name from webhook
    where shard = ${shard} and store_id = ${storeId} and (id = ${id} or split_part(url, '?', 1) = ${url})
    order by id limit 100`;
}
