/**
 * SQL that erases one resource, records erased events, and searches for copies of an erased customer. Events are erased in batches: the
 * events of a resource and the lifecycle steps that were derived from it.
 */
import type { ResourceType } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import type { FrozenEvent } from '#catalog/resource-document.ts';
import type { Queryable } from '#db/pool.ts';
import type { StoreKey } from '#core/ids.ts';
import { nextDeliveryId } from '#db/partitions.ts';
import { resourceKey } from '../publish/publish-sql.ts';

export type Latest = {
  version: number;
  /** Id of its newest event. */
  headId: number;
  /** Id of the newest step that was derived from it, if it is a subscription. */
  stepId: number | null;
  /** The id as JSON text: a number if the body has this number as its `id`. */
  publishedId: string;
};

/** Locks the resource until the transaction ends, so that no publish changes it. Returns undefined if it does not exist. */
export async function lockResource(
  sql: Queryable,
  { shard, storeId, type, id }: ResourceKey,
): Promise<Latest | undefined> {
  const [row] = await sql<Latest[]>`
    select r.version, coalesce(r.head_event_id, r.event_id) as "headId",
      case when r.type = 'subscription' then r.step_id end as "stepId", case when (r.body::json -> 'id')::text = r.id then r.id else to_json(r.id)::text end as "publishedId"
    from resource r join store s on s.shard = r.shard and s.id = r.store_id
    where r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type} and r.id = ${id}
    for update of r`;
  return row;
}

/** Deletes the resource and keeps a version number and the time of the erasure in case it is published again. */
export async function deleteResource(
  sql: Queryable,
  { shard, storeId, type, id }: ResourceKey,
  version: number,
  now: Date,
): Promise<void> {
  await sql`
    with gone as (
      delete from resource where shard = ${shard} and store_id = ${storeId} and type = ${type} and id = ${id}
      returning case when type = 'subscription_event' then step_id end as step_id
    )
    insert into erased_resource as e (shard, store_id, type, id, version, step_id, date_erased)
    select ${shard}, ${storeId}, ${type}, ${id}, ${version}, step_id, ${now}::timestamptz from gone
    on conflict (shard, store_id, type, id) do update set
      version = greatest(e.version, excluded.version), step_id = coalesce(excluded.step_id, e.step_id),
      date_erased = greatest(e.date_erased, excluded.date_erased)`;
}

/**
 * Records erased events, whose stored responses are erased later. Inserts in id order, the order in which `deleteErasedEvents`
 * locks the rows.
 */
export async function insertErasedEvents(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  ids: readonly number[],
  now: Date,
): Promise<void> {
  await sql`
    insert into erased_event (shard, id, store_id, date_erased)
    select ${shard}, id, ${storeId}, ${now} from unnest(${ids}::bigint[]) as id order by id
    on conflict (shard, id) do update set date_erased = excluded.date_erased`;
}

export type ErasedEvent = StoreKey & { id: number };

/** Returns events that were erased at `before` or earlier. */
export function findErasedEvents(sql: Queryable, before: Date, limit: number): Promise<ErasedEvent[]> {
  return sql<ErasedEvent[]>`
  select shard, id, store_id as "storeId" from erased_event where date_erased <= ${before}
  order by date_erased limit ${limit}`;
}

export async function deleteErasedEvents(
  sql: Queryable,
  shard: number,
  ids: readonly number[],
  before: Date,
): Promise<void> {
  await sql`
    delete from erased_event where ctid = any(array(
      select ctid from erased_event where shard = ${shard} and id = any(${ids}::bigint[]) and date_erased <= ${before}
      order by id for update
    ))`;
}

/** Starts the search for copies of a customer, from the beginning if a search exists. */
export async function insertErasedCustomer(
  sql: Queryable,
  { shard, storeId, id }: ResourceKey,
  now: Date,
): Promise<void> {
  await sql`
    insert into erased_customer (shard, store_id, id, date_erased) values (${shard}, ${storeId}, ${id}, ${now})
    on conflict (shard, store_id, id) do update set
      date_erased = excluded.date_erased, after_type = '', after_id = '', before_event_id = null`;
}

export type CopySearch = StoreKey & {
  id: string;
  dateErased: Date;
  afterType: string;
  afterId: string;
  beforeEventId: number | null;
};

/** Returns a customer whose copies are to be removed. */
export async function findCopySearch(sql: Queryable): Promise<CopySearch | undefined> {
  const [row] = await sql<CopySearch[]>`
    select shard, store_id as "storeId", id, date_erased as "dateErased", after_type as "afterType", after_id as "afterId",
      before_event_id as "beforeEventId"
    from erased_customer order by shard, store_id, id limit 1`;
  return row;
}

/** Stores the position of the search, unless it was restarted concurrently. */
export async function saveSearchPosition(sql: Queryable, to: CopySearch): Promise<void> {
  await sql`
    update erased_customer
    set after_type = ${to.afterType}, after_id = ${to.afterId}, before_event_id = ${to.beforeEventId}
    where shard = ${to.shard} and store_id = ${to.storeId} and id = ${to.id} and date_erased = ${to.dateErased}`;
}

/** Deletes the search. Returns false if it was restarted concurrently. */
export async function deleteCopySearch(
  sql: Queryable,
  { shard, storeId, id, dateErased }: CopySearch,
): Promise<boolean> {
  const { count } = await sql`
    delete from erased_customer
    where shard = ${shard} and store_id = ${storeId} and id = ${id} and date_erased = ${dateErased}`;
  return count > 0;
}

/**
 * Returns the condition that a body may contain the customer, by a text search for its id; parsing a page as JSON takes ten times
 * as long.
 */
const mentions = (sql: Queryable, needles: readonly string[]) => sql`
  exists (select from unnest(${needles}::text[]) as needle where strpos(page.body, needle) > 0)`;

/**
 * Returns the condition that an event was published after the erasure and so must be kept. Compares dates, because ids come in
 * blocks of 1,024 per process and are not in order; a version whose partition was dropped is older. `limit 1` gives one lookup in
 * one partition.
 */
const isPublishedSince = (
  sql: Queryable,
  { shard, storeId, dateErased }: CopySearch,
  eventId: ReturnType<typeof mentions>,
) => sql`
  coalesce((
    select e.date_created from event e where e.shard = ${shard} and e.store_id = ${storeId} and e.id = ${eventId} limit 1
  ) > ${dateErased}, false)`;

export type ResourceOnPage = { type: ResourceType; id: string; version: number; body: string | null };

/** Returns the next resources of the store in key order; `body` is null if it cannot contain a copy from before the erasure. */
export function pageOfResources(
  sql: Queryable,
  search: CopySearch,
  needles: readonly string[],
  limit: number,
): Promise<ResourceOnPage[]> {
  return sql<ResourceOnPage[]>`
  select page.type, page.id, page.version,
    case when ${mentions(sql, needles)} and not ${isPublishedSince(sql, search, sql`page.event_id`)} then page.body end as body
  from (
    select type, id, version, event_id, body from resource
    where shard = ${search.shard} and store_id = ${search.storeId} and (type, id) > (${search.afterType}, ${search.afterId})
    order by type, id limit ${limit}
  ) as page
  order by page.type, page.id`;
}

export type EventOnPage = { id: number; body: string | null };

/**
 * When the payload of an event was published: for a refeed, the date of the version that it repeats, found in the chain of its
 * resource. A version whose partition was dropped is older than any pending erasure; one that was loaded has no event, and counts as older.
 */
const publishedAt = (sql: Queryable, { shard, storeId }: CopySearch) => sql`
  case when page.action <> 'refeed' then page.date_created else coalesce((
    with recursive source as (
      select page.action, page.version, page.date_created, page.previous_id
      union all
      select before.action, before.version, before.date_created, before.previous_id
      from source cross join lateral (
        select action, version, date_created, previous_id from event
        where shard = ${shard} and store_id = ${storeId} and id = source.previous_id limit 1
      ) as before
      where source.action = 'refeed' or source.version <> page.version
    ) select max(s.date_created) from source s where s.action <> 'refeed' and s.version = page.version
  ), '-infinity') end`;

export function pageOfEvents(
  sql: Queryable,
  search: CopySearch,
  before: number,
  needles: readonly string[],
  limit: number,
): Promise<EventOnPage[]> {
  return sql<EventOnPage[]>`
  select page.id,
    case when ${mentions(sql, needles)} and ${publishedAt(sql, search)} <= ${search.dateErased} then page.body end as body
  from (
    select id, action, version, previous_id, date_created, body from event
    where shard = ${search.shard} and store_id = ${search.storeId} and id < ${before}
    order by id desc limit ${limit}
  ) as page
  order by page.id desc`;
}

/** Replaces the body unless the resource has a newer version, which was published after the erasure. */
export async function replaceResource(
  sql: Queryable,
  { shard, storeId }: CopySearch,
  { type, id, version }: ResourceOnPage,
  body: string,
): Promise<void> {
  await sql`
    update resource set body = ${body}
    where shard = ${shard} and store_id = ${storeId} and type = ${type} and id = ${id} and version = ${version}`;
}

/** Replaces the body unless the event was erased. */
export async function replaceEvent(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  id: number,
  body: string,
): Promise<void> {
  await sql`
    update event set body = ${body} where shard = ${shard} and store_id = ${storeId} and id = ${id} and body <> ''`;
}

/**
 * What remains to be erased: a chain of events from `eventId` back in time, and a chain of steps, whose resources are deleted
 * as well. Null if none remain.
 */
export type Remaining = StoreKey & { eventId: number | null; stepId: number | null };

/**
 * Returns the events of one resource, newest first, by following `previous_id`; the chain ends at a dropped partition. `limit
 * 1` makes each step one index lookup in one partition: with a plain join the planner may read all partitions.
 */
export async function findEventChain(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  headId: number,
  limit: number,
): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with recursive chain as (
      select id, previous_id from event where shard = ${shard} and store_id = ${storeId} and id = ${headId}
      union all
      select before.id, before.previous_id
      from chain
      cross join lateral (
        select id, previous_id from event where shard = ${shard} and store_id = ${storeId} and id = chain.previous_id limit 1
      ) as before
    )
    select id from chain limit ${limit}`;
  return rows.map(({ id }) => id);
}

/** Returns the steps of one subscription, newest first, including steps that were erased individually. */
export async function findSteps(
  sql: Queryable,
  { shard, storeId }: Remaining,
  newestId: number,
  limit: number,
): Promise<number[]> {
  const before = (table: 'resource' | 'erased_resource') => sql`(
    select b.step_id from ${sql(table)} b
    where b.shard = ${shard} and b.store_id = ${storeId} and b.type = 'subscription_event' and b.id = step.id::text
  )`;
  const rows = await sql<{ id: number }[]>`
    with recursive step as (
      select ${newestId}::bigint as id
      union all
      select before.id from step
      cross join lateral (select coalesce(${before('resource')}, ${before('erased_resource')}) as id) as before
      where before.id is not null
    )
    select id from step limit ${limit}`;
  return rows.map(({ id }) => id);
}

/**
 * Deletes the resources of steps. Their ids are never reused, so no version is kept. Returns the newest event of each step that
 * has more than one event, because it was sent again.
 */
export async function deleteSteps(
  sql: Queryable,
  { shard, storeId }: Remaining,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await sql<{ headId: number }[]>`
    with gone as (
      delete from resource where ctid = any(array(
        select ctid from resource
        where shard = ${shard} and store_id = ${storeId} and type = 'subscription_event' and id = any(${ids.map(String)}::text[])
        order by id for update
      ))
      returning event_id, head_event_id
    )
    select head_event_id as "headId" from gone where head_event_id <> event_id`;
  return rows.map(({ headId }) => headId);
}

/** Locks the events until the transaction ends, in id order to prevent deadlocks. */
export async function lockEvents(sql: Queryable, { shard, storeId }: StoreKey, ids: readonly number[]): Promise<void> {
  await sql`
    select from event where shard = ${shard} and store_id = ${storeId} and id = any(${ids}::bigint[]) order by id for update`;
}

/** Sets the bodies to the empty string, which no JSON text equals and which marks an erased event. */
export async function emptyEvents(sql: Queryable, { shard, storeId }: StoreKey, ids: readonly number[]): Promise<void> {
  await sql`
    update event set body = '', trace_context = null
    where shard = ${shard} and store_id = ${storeId} and id = any(${ids}::bigint[]) and body <> ''`;
}

/** What remains of one resource, stored under the id of its newest event. */
export type StoredRemaining = Remaining & { id: number };

export async function saveRemaining(
  sql: Queryable,
  { id, shard, storeId, eventId, stepId }: StoredRemaining,
  now: Date,
) {
  await sql`
    insert into erased_chain (shard, id, store_id, event_id, step_id, date_erased)
    values (${shard}, ${id}, ${storeId}, ${eventId}, ${stepId}, ${now})
    on conflict (shard, id) do update set event_id = excluded.event_id, step_id = excluded.step_id`;
}

export async function deleteRemaining(sql: Queryable, { shard, id }: StoredRemaining): Promise<void> {
  await sql`delete from erased_chain where shard = ${shard} and id = ${id}`;
}

const columns = (sql: Queryable) => sql`shard, id, store_id as "storeId", event_id as "eventId", step_id as "stepId"`;

/** Returns and locks the stored remainder; undefined if it is fully erased. */
export async function lockRemaining(
  sql: Queryable,
  { shard, id }: StoredRemaining,
): Promise<StoredRemaining | undefined> {
  const [remaining] = await sql<StoredRemaining[]>`
    select ${columns(sql)} from erased_chain where shard = ${shard} and id = ${id} for update`;
  return remaining;
}

/** Returns and locks any stored remainder that is not locked. */
export async function lockAnyRemaining(sql: Queryable): Promise<StoredRemaining | undefined> {
  const [remaining] = await sql<StoredRemaining[]>`
    select ${columns(sql)} from erased_chain order by shard, id limit 1 for update skip locked`;
  return remaining;
}

type Reader = { id: number; type: ResourceType | null; query: string | null };

/** Returns the active webhooks of a store with an endpoint or a pull client, at most as many as a store may have. */
export function listReaders(sql: Queryable, { shard, storeId }: StoreKey): Promise<Reader[]> {
  return sql<Reader[]>`
    select id, event_resource as type, query from webhook
    where shard = ${shard} and store_id = ${storeId} and is_active and (url is not null or is_held)
    order by id`;
}

export type ErasureEvent = Pick<FrozenEvent, 'id' | 'action' | 'version' | 'nonce' | 'body' | 'baseUrl'> & {
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
