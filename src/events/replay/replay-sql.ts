/** SQL of a replay: a refeed is a new event of the latest version, a resend a new delivery of the same event. */
import { HIDDEN_FROM_APPS } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import type { PublishedVersion } from '#catalog/payload-filter.ts';
import { nextDeliveryId } from '#db/partitions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import type { FrozenEvent } from '#catalog/resource-document.ts';
import { dayOf } from '#core/ids.ts';
import { NO_EVENT } from '../publish/publish-sql.ts';
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

/**
 * The CTEs that set `resent_as` of earlier deliveries of the same event and webhook to the delivery in the CTE `made`: of those in the array
 * `earlier`, and of all that name one of these. A pending one of an older epoch has failed, and is ended. `webhook`: SQL of the webhook's id.
 */
export function resentAs(
  sql: Queryable,
  { shard, webhook, earlier, now }: { shard: number; webhook: Fragment; earlier: Fragment; now: Date },
): Fragment {
  return sql`
  chain as materialized (
    select ${earlier} || array(
      select b.id from delivery_done a join delivery_done b on b.shard = a.shard and b.resent_as in (a.id, a.resent_as)
      where a.shard = ${shard} and a.webhook_id = ${webhook} and a.id = any(${earlier})
    ) || array(
      select a.resent_as from delivery_done a
      where a.shard = ${shard} and a.webhook_id = ${webhook} and a.id = any(${earlier}) and a.resent_as is not null
    ) as ids
  ), noted as (
    update delivery_done d set resent_as = made.id
    from made
    where d.shard = ${shard} and d.webhook_id = made.webhook_id and d.event_id = made.event_id and d.id = any((select ids from chain)::bigint[])
  ), outdated as (
    delete from delivery d using made
    where d.shard = ${shard} and d.webhook_id = made.webhook_id and d.event_id = made.event_id and d.id = any((select ids from chain)::bigint[])
    returning d.*, made.id as resent_as
  ), noted_as_ended as (
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, resent_as)
    select shard, id, store_id, webhook_id, event_id, 'failed', attempts, ${now}, resent_as from outdated
  )`;
}

type Row = Omit<FrozenEvent, 'id'> & { deliveryId: number; storeId: number; epoch: number; isHeld: boolean };

/**
 * Inserts a new delivery of an event to a webhook, due at once, in place of an ended one; to be called in the transaction that has locked
 * the row of the webhook, so that two are not inserted concurrently. Returns undefined if the event was erased or dropped by retention.
 */
export async function insertResend(
  tx: Queryable,
  { shard, webhookId, eventId, deliveryId: earlierId, now }: EventOfWebhook & { deliveryId: number; now: Date },
): Promise<Committed | undefined> {
  const [row] = await tx<Row[]>`
    with source as materialized (
      select e.store_id, e.resource_type, e.resource_id, e.action, e.version, e.nonce, e.base_url, e.date_created, e.body,
        e.trace_context, w.epoch, w.is_held
      from webhook w
      join event e on e.shard = ${shard} and e.id = ${eventId} and e.store_id = w.store_id
      where w.shard = ${shard} and w.id = ${webhookId} and octet_length(e.body) > 0
    ), made as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select ${shard}, ${nextDeliveryId(tx, dayOf(now), tx`${shard}::smallint`)}, store_id,
        ${webhookId}, epoch, ${eventId}, case when is_held then 'infinity' else ${now}::timestamptz end
      from source
      returning shard, id, webhook_id, event_id
    ), ${resentAs(tx, { shard, webhook: tx`${webhookId}::bigint`, earlier: tx`array[${earlierId}::bigint]`, now })}
    select made.id as "deliveryId", t.store_id as "storeId", t.resource_type as type, t.resource_id as "resourceId", t.action,
      t.version, t.nonce, t.base_url as "baseUrl", t.date_created as "dateCreated", t.body,
      t.trace_context as "traceContext", t.epoch, t.is_held as "isHeld"
    from source t cross join made`;
  if (row === undefined) return undefined;
  const { deliveryId, storeId, epoch, isHeld, ...event } = row;
  return { shard, deliveryId, storeId, webhookId, epoch, isHeld, dueAt: now, event: { id: eventId, ...event } };
}

/** The app that calls, or null, and whether the caller is an owner of the store in person. */
type Sender = { app: number | null; isOwner: boolean };

export type NewRefeed = ResourceKey & {
  eventId: number;
  nonce: number;
  action: string;
  /** Ids of the listed webhooks; null for all webhooks of the store for this resource type. */
  webhooks: readonly number[] | null;
  /** `<resource>/<action>`: only webhooks that subscribe to it; null for no restriction. */
  sentFor: string | null;
  /** The filters of the store's webhooks that were evaluated, and those that the resource passes. */
  filters: { known: readonly string[]; passed: readonly string[] };
  sender: Sender;
  /** Sends the resource only if its latest version was loaded, and a webhook receives it. */
  isOfLoaded: boolean;
  day: number;
  now: Date;
};

/**
 * Returns the latest version of a resource, and locks it until the transaction ends. Undefined if it does not exist, or if no active
 * webhook for its type has a filter.
 */
export async function lockFiltered(sql: Queryable, key: ResourceKey): Promise<PublishedVersion | undefined> {
  const { shard, storeId, type, id } = key;
  const [row] = await sql<PublishedVersion[]>`
    select r.id as "resourceId", r.modified_at as "modifiedAt", r.body from resource r
    where r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type} and r.id = ${id} and exists (
      select from webhook w
      where w.shard = ${shard} and w.store_id = ${storeId} and w.is_active and w.event_resource = ${type} and w.filter_id is not null
    )
    for no key update of r`;
  return row;
}

/** The event and one of the selected webhooks; `webhookId` is null in a single row if there are none. */
export type RefeedRow = {
  version: number;
  timeZone: string;
  baseUrl: string;
  /** Only one row has it, so that it is not transferred up to a hundred times. */
  body: string | null;
  eventResource: string | null;
  /** Null if the webhook does not receive the event. */
  deliveryId: number | null;
} & (RefeedWebhook | { [Name in keyof RefeedWebhook]: null });

type RefeedWebhook = {
  webhookId: number;
  isActive: boolean;
  hasUrl: boolean;
  /** Whether it is a pull webhook. */
  isHeld: boolean;
  /** Whether the webhook subscribes to the requested event. */
  isSubscribed: boolean;
  epoch: number;
};

/**
 * Inserts a refeed event and its deliveries; returns no rows if the resource does not exist or is deleted. The event becomes the head of the
 * resource's event chain, so that an erasure of the resource finds it; version, time zone and base URL stay those of the
 * version. Epochs are read in the statement that writes the deliveries: a webhook that is disabled concurrently gets a delivery
 * of an older epoch, or none.
 *
 * This is separate from `publishBatch`, which creates a version for each event; handling refeeds there would slow down every
 * publish.
 *
 * The webhooks of apps are those that the caller may send to, as by the other actions (`maySendTo` in `webhooks/webhook-access.ts`).
 */
export async function insertRefeed(sql: Queryable, refeed: NewRefeed): Promise<RefeedRow[]> {
  const { shard, storeId, type, id, eventId, webhooks, filters, day, now } = refeed;
  const { app, isOwner } = refeed.sender;
  return sql<RefeedRow[]>`
    with selected as materialized (
      select w.id, w.is_active, w.url is not null as has_url, w.is_held, w.event_resource, w.epoch, w.filter_id,
        ${refeed.sentFor}::text is null or ${refeed.sentFor}::text = any (w.events) as is_subscribed
      from webhook w
      where w.shard = ${shard} and w.store_id = ${storeId}
        and (${webhooks}::bigint[] is null or w.id = any (${webhooks}::bigint[]))
        and case when w.is_for_app then w.client = ${app} or ${isOwner}
          else coalesce(w.event_resource <> all(${HIDDEN_FROM_APPS}::text[]), true) or ${app}::bigint is null end
    ), recipient as materialized (
      select m.* from (
        select * from selected where is_active and (has_url or is_held) and event_resource = ${type} and is_subscribed
        offset 0
      ) as m
      where m.filter_id is null or passes_filter(m.filter_id, ${filters.known}::bigint[], ${filters.passed}::bigint[])
    ), target as (
      update resource r set head_event_id = ${eventId}, superseded_event_id = coalesce(r.head_event_id, r.event_id)
      from store s
      where r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type} and r.id = ${id}
        and s.shard = r.shard and s.id = r.store_id and r.date_deleted is null
        and (not ${refeed.isOfLoaded} or (r.event_id = ${NO_EVENT} and exists (select from recipient)))
      returning r.version, r.superseded_event_id, r.time_zone, r.base_url, r.body
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
      cross join recipient m
      returning id, webhook_id
    )
    select t.version, t.time_zone as "timeZone", t.base_url as "baseUrl",
      case when row_number() over (order by m.id) = 1 then t.body end as body,
      m.id as "webhookId", m.is_active as "isActive", m.has_url as "hasUrl", m.is_held as "isHeld", m.event_resource as "eventResource", m.is_subscribed as "isSubscribed", m.epoch,
      d.id as "deliveryId"
    from target t
    left join selected m on true
    left join sent d on d.webhook_id = m.id
    order by m.id`;
}
