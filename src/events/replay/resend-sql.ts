/** SQL that sends an event to a webhook again, as a new delivery of the same event. */
import type { FrozenEvent } from '#catalog/document.ts';
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import { dayOf } from '#core/ids.ts';
import type { Committed } from '../publish/rows.ts';

type EventOfWebhook = { shard: number; webhookId: number; eventId: number };

/**
 * Returns the pending delivery of the event to the webhook in this epoch, among the `limit` deliveries that are due first. An
 * index by event would slow down every publish, and reading a million deliveries took half a second, during which the row of
 * the webhook is locked.
 */
export async function findPending(
  sql: Queryable,
  { shard, webhookId, eventId, epoch }: EventOfWebhook & { epoch: number },
  limit: number,
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    select id from (
      select id, event_id, epoch from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and due_at > '-infinity'
      order by due_at, id limit ${limit}
    ) as due_first
    where event_id = ${eventId} and epoch >= ${epoch}
    order by id limit 1`;
  return row?.id;
}

type Row = Omit<FrozenEvent, 'id'> & { deliveryId: number; storeId: number; epoch: number; isHeld: boolean };

/**
 * Inserts a new delivery of an event to a webhook, due at once; to be called in the transaction that has locked the row of the
 * webhook, so that two are not inserted concurrently. Returns undefined if the event was erased or dropped by retention.
 */
export async function insertResend(
  tx: Queryable,
  { shard, webhookId, eventId, now }: EventOfWebhook & { now: Date },
): Promise<Committed | undefined> {
  const [row] = await tx<Row[]>`
    with source as materialized (
      select e.store_id, e.resource_type, e.resource_id, e.action, e.version, e.nonce, e.base_url, e.date_created, e.body,
        w.epoch, w.is_held
      from webhook w
      join event e on e.shard = ${shard} and e.id = ${eventId} and e.store_id = w.store_id
      where w.shard = ${shard} and w.id = ${webhookId} and octet_length(e.body) > 0
    ), made as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select ${shard}, ${nextDeliveryId(tx, dayOf(now), tx`${shard}::smallint`)}, store_id,
        ${webhookId}, epoch, ${eventId}, case when is_held then 'infinity' else ${now}::timestamptz end
      from source
      returning id
    )
    select made.id as "deliveryId", t.store_id as "storeId", t.resource_type as type, t.resource_id as "resourceId", t.action,
      t.version, t.nonce, t.base_url as "baseUrl", t.date_created as "dateCreated", t.body, t.epoch, t.is_held as "isHeld"
    from source t cross join made`;
  if (row === undefined) return undefined;
  const { deliveryId, storeId, epoch, isHeld, ...event } = row;
  return { shard, deliveryId, storeId, webhookId, epoch, isHeld, dueAt: now, event: { id: eventId, ...event } };
}
