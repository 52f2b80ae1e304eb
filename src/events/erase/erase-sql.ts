/** The statements that erase: one resource with all that was told of it, and the copies of a customer elsewhere. */
import type { ResourceType } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import type { Queryable } from '#db/pool.ts';

export type Latest = {
  version: number;
  /** Its newest event. */
  headId: number;
  /** The newest step that was derived from it, where it is a subscription. */
  stepId: number | null;
};

/** Undefined where there is no such resource. Nobody publishes it until the transaction ends. */
export const lockResource = async (
  sql: Queryable,
  { shard, storeId, type, id }: ResourceKey,
): Promise<Latest | undefined> => {
  const [row] = await sql<Latest[]>`
    select r.version, coalesce(r.head_event_id, r.event_id) as "headId",
      case when r.type = 'subscription' then r.step_id end as "stepId"
    from resource r join store s on s.shard = r.shard and s.id = r.store_id
    where r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type} and r.id = ${id}
    for update of r`;
  return row;
};

/** The resource goes, and its version stays behind for the case that it is published again. */
export const deleteResource = async (sql: Queryable, { shard, storeId, type, id }: ResourceKey): Promise<void> => {
  await sql`
    with gone as (
      delete from resource where shard = ${shard} and store_id = ${storeId} and type = ${type} and id = ${id}
      returning version, case when type = 'subscription_event' then step_id end as step_id
    )
    insert into erased_resource as e (shard, store_id, type, id, version, step_id)
    select ${shard}, ${storeId}, ${type}, ${id}, version, step_id from gone
    on conflict (shard, store_id, type, id) do update set
      version = greatest(e.version, excluded.version), step_id = coalesce(excluded.step_id, e.step_id)`;
};

/** So that what receivers answered to these events goes as well. In the order in which `forgetNoted` takes them. */
export const noteEvents = async (
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
  ids: readonly number[],
  now: Date,
): Promise<void> => {
  await sql`
    insert into erased_event (shard, id, store_id, date_erased)
    select ${shard}, id, ${storeId}, ${now} from unnest(${ids}::bigint[]) as id order by id
    on conflict (shard, id) do update set date_erased = excluded.date_erased`;
};

export type NotedEvent = { shard: number; id: number; storeId: number };

/** Events that were erased before, of one shard. */
export const notedEvents = async (sql: Queryable, before: Date, limit: number): Promise<NotedEvent[]> => sql<
  NotedEvent[]
>`
  select shard, id, store_id as "storeId" from erased_event where date_erased <= ${before}
  order by date_erased limit ${limit}`;

export const forgetNoted = async (
  sql: Queryable,
  shard: number,
  ids: readonly number[],
  before: Date,
): Promise<void> => {
  await sql`
    delete from erased_event where ctid = any(array(
      select ctid from erased_event where shard = ${shard} and id = any(${ids}::bigint[]) and date_erased <= ${before}
      order by id for update
    ))`;
};

/** Copies of the customer are to be looked for, from the beginning if that was under way. */
export const noteCustomer = async (sql: Queryable, { shard, storeId, id }: ResourceKey, now: Date): Promise<void> => {
  await sql`
    insert into erased_customer (shard, store_id, id, date_erased) values (${shard}, ${storeId}, ${id}, ${now})
    on conflict (shard, store_id, id) do update set
      date_erased = excluded.date_erased, after_type = '', after_id = '', before_event_id = null`;
};

export type Hunt = {
  shard: number;
  storeId: number;
  id: string;
  dateErased: Date;
  afterType: string;
  afterId: string;
  beforeEventId: number | null;
};

/** A customer whose copies are looked for. */
export const nextHunt = async (sql: Queryable): Promise<Hunt | undefined> => {
  const [row] = await sql<Hunt[]>`
    select shard, store_id as "storeId", id, date_erased as "dateErased", after_type as "afterType", after_id as "afterId",
      before_event_id as "beforeEventId"
    from erased_customer order by shard, store_id, id limit 1`;
  return row;
};

/** Where the search goes on; nothing if it was begun anew meanwhile. */
export const moveHunt = async (sql: Queryable, to: Hunt): Promise<void> => {
  await sql`
    update erased_customer
    set after_type = ${to.afterType}, after_id = ${to.afterId}, before_event_id = ${to.beforeEventId}
    where shard = ${to.shard} and store_id = ${to.storeId} and id = ${to.id} and date_erased = ${to.dateErased}`;
};

/** Whether it is over: not if it was begun anew meanwhile. */
export const endHunt = async (sql: Queryable, { shard, storeId, id, dateErased }: Hunt): Promise<boolean> => {
  const { count } = await sql`
    delete from erased_customer
    where shard = ${shard} and store_id = ${storeId} and id = ${id} and date_erased = ${dateErased}`;
  return count > 0;
};

/** Whether a body may hold the customer: it says the id somewhere. Read as JSON, a page would take ten times as long. */
const mentions = (sql: Queryable, needles: readonly string[]) => sql`
  exists (select from unnest(${needles}::text[]) as needle where strpos(page.body, needle) > 0)`;

/**
 * Published after the erasure, which is nobody's to take. By date, because ids come in blocks of 1,024 a process and rise in
 * no order; a latest version whose day was dropped is older. `limit 1` for one look into one partition.
 */
const isSince = (sql: Queryable, { shard, dateErased }: Hunt, eventId: ReturnType<typeof mentions>) => sql`
  coalesce((
    select e.date_created from event e where e.shard = ${shard} and e.id = ${eventId} limit 1
  ) > ${dateErased}, false)`;

export type ResourceOnPage = { type: ResourceType; id: string; eventId: number; body: string | null };

/** The next resources of the store in the order of their key; those that cannot hold a copy of before without body. */
export const pageOfResources = async (
  sql: Queryable,
  hunt: Hunt,
  needles: readonly string[],
  limit: number,
): Promise<ResourceOnPage[]> => sql<ResourceOnPage[]>`
  select page.type, page.id, page.event_id as "eventId",
    case when ${mentions(sql, needles)} and not ${isSince(sql, hunt, sql`page.event_id`)} then page.body end as body
  from (
    select type, id, event_id, body from resource
    where shard = ${hunt.shard} and store_id = ${hunt.storeId} and (type, id) > (${hunt.afterType}, ${hunt.afterId})
    order by type, id limit ${limit}
  ) as page
  order by page.type, page.id`;

export type EventOnPage = { id: number; body: string | null };

/**
 * When what an event carries was published: what was sent again is as old as the version that it carries, which stands before it
 * in the chain of its resource. One whose day was dropped is older than any erasure that is looked after.
 */
const publishedAt = (sql: Queryable, shard: number) => sql`
  case when page.action <> 'refeed' then page.date_created else coalesce((
    with recursive source as (
      select page.action, page.version, page.date_created, page.previous_id
      union all
      select before.action, before.version, before.date_created, before.previous_id
      from source cross join lateral (
        select action, version, date_created, previous_id from event
        where shard = ${shard} and id = source.previous_id limit 1
      ) as before
      where source.action = 'refeed' or source.version <> page.version
    ) select max(s.date_created) from source s where s.action <> 'refeed' and s.version = page.version
  ), '-infinity') end`;

export const pageOfEvents = async (
  sql: Queryable,
  { shard, storeId, dateErased }: Hunt,
  before: number,
  needles: readonly string[],
  limit: number,
): Promise<EventOnPage[]> => sql<EventOnPage[]>`
  select page.id,
    case when ${mentions(sql, needles)} and ${publishedAt(sql, shard)} <= ${dateErased} then page.body end as body
  from (
    select id, action, version, previous_id, date_created, body from event where shard = ${shard} and store_id = ${storeId} and id < ${before}
    order by id desc limit ${limit}
  ) as page
  order by page.id desc`;

/** Unless it has another version by now, which was published after the erasure. */
export const replaceResource = async (
  sql: Queryable,
  { shard, storeId }: Hunt,
  { type, id, eventId }: ResourceOnPage,
  body: string,
): Promise<void> => {
  await sql`
    update resource set body = ${body}
    where shard = ${shard} and store_id = ${storeId} and type = ${type} and id = ${id} and event_id = ${eventId}`;
};

/** Unless it was erased meanwhile. */
export const replaceEvent = async (sql: Queryable, shard: number, id: number, body: string): Promise<void> => {
  await sql`update event set body = ${body} where shard = ${shard} and id = ${id} and body <> ''`;
};
