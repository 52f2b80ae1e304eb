/** The statement that sends a resource again: its latest version as an event, with the deliveries that come of it. */
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';

export type NewRefeed = ResourceKey & {
  eventId: number;
  nonce: number;
  action: string;
  /** The webhooks that were named; null: all of the store that are for resources of this type. */
  webhooks: readonly number[] | null;
  /** `<resource>/<action>`: only webhooks that are sent this; null: whatever they are sent. */
  sentFor: string | null;
  day: number;
  now: Date;
};

/** The event, and a webhook that was named or that it is for. Where it is for none, `webhookId` is null in the one row. */
export type RefeedRow = {
  version: number;
  timeZone: string;
  baseUrl: string;
  /** Stands in one of the rows: the others would carry the same up to a hundred times. */
  body: string | null;
  webhookId: number | null;
  isActive: boolean;
  hasUrl: boolean;
  /** A listener fetches what it is sent. */
  isHeld: boolean;
  eventResource: string | null;
  epoch: number;
  /** Null where it is not sent there. */
  deliveryId: number | null;
};

/**
 * Nothing comes back where there is no such resource. The event becomes the head of the resource's chain, so that whoever
 * erases the resource finds it; the version stays what it is, with the time zone and the base URL of its day. Epochs are read in
 * the statement that writes the deliveries: a webhook that is switched off beside it gets one that is dead, or none.
 *
 * A statement of its own, because `publishBatch` makes a version of all that it writes, and publishes alone should pay for that.
 */
export const insertRefeed = async (sql: Queryable, refeed: NewRefeed): Promise<RefeedRow[]> => {
  const { shard, storeId, type, id, eventId, webhooks, day, now } = refeed;
  return sql<RefeedRow[]>`
    with target as (
      update resource r set head_event_id = ${eventId}, superseded_event_id = coalesce(r.head_event_id, r.event_id)
      from store s
      where r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type} and r.id = ${id}
        and s.shard = r.shard and s.id = r.store_id
      returning r.version, r.superseded_event_id, r.time_zone, r.base_url, r.body
    ), meant as materialized (
      select w.id, w.is_active, w.url is not null as has_url, w.is_held, w.event_resource, w.events, w.epoch
      from webhook w
      where w.shard = ${shard} and w.store_id = ${storeId}
        and (${webhooks}::bigint[] is null or w.id = any (${webhooks}::bigint[]))
    ), written as (
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, previous_id, time_zone,
        base_url, date_created, body)
      select ${shard}, ${eventId}, ${storeId}, ${type}, ${id}, ${refeed.action}, version, ${refeed.nonce},
        superseded_event_id, time_zone, base_url, ${now}, body
      from target
      returning id
    ), sent as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select ${shard}, ${nextDeliveryId(sql, day, sql`${shard}::smallint`)}, ${storeId}, m.id,
        m.epoch, written.id, case when m.is_held then 'infinity' else ${now}::timestamptz end
      from written
      cross join meant m
      where m.is_active and (m.has_url or m.is_held) and m.event_resource = ${type}
        and (${refeed.sentFor}::text is null or ${refeed.sentFor}::text = any (m.events))
      returning id, webhook_id
    )
    select t.version, t.time_zone as "timeZone", t.base_url as "baseUrl",
      case when row_number() over (order by m.id) = 1 then t.body end as body,
      m.id as "webhookId", m.is_active as "isActive", m.has_url as "hasUrl", m.is_held as "isHeld", m.event_resource as "eventResource", m.epoch,
      d.id as "deliveryId"
    from target t
    left join meant m on true
    left join sent d on d.webhook_id = m.id
    order by m.id`;
};
