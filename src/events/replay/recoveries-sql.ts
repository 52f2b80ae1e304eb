/** SQL of recoveries: insert, find, start, write pages, end. */
import { openTransactions } from '#db/activity.ts';
import { nextDeliveryId } from '#db/partitions.ts';
import type { FilteredEvent } from '#catalog/payload-filter.ts';
import type { Queryable, Fragment } from '#db/pool.ts';
import { dayOf, firstIdOfDay, dayOfId } from '#core/ids.ts';
import { narrowed } from '#db/list-conditions.ts';
import { textFilter } from '#hypermedia/list-query.ts';
import { NO_EVENT, resourceKey } from '../publish/publish-sql.ts';
import { ERASED, type ResourceType } from '#catalog/catalog.ts';
import { REFEED } from './refeed.ts';
import { resentAs } from './replay-sql.ts';

type MissedQuery = {
  /** The events after `after`, up to and including `upTo`; all of the same day. */
  after: number;
  upTo: number;
  /** Maximum number of events to read. */
  limit: number;
};

/**
 * `ids`: the missed events. `places`: for each of them, the number of events read up to it. `last` is null if no events were
 * read. `failed`: the earlier deliveries of missed events, all of which have failed, in the order of their events `failedOf`.
 */
export type Missed = {
  seen: number;
  last: number | null;
  ids: number[];
  places: number[];
  failed: number[];
  failedOf: number[];
};

/** Returns the condition that a column has a text with `*` for any text, as in a search; none for null. */
function isText(sql: Queryable, column: string, text: string | null): Fragment {
  if (text === null) return sql``;
  const filter = textFilter(column, text);
  if (filter === undefined) throw new Error(`A recovery is limited to a ${column} that is no filter`);
  return narrowed(sql, [filter], { [column]: sql`${sql(column)}` });
}

/**
 * Returns the condition that a missed event `m` has a failed delivery, whose last response is one that the recovery is limited to. It
 * reads the responses of missed events only: those of a day could have gigabytes.
 */
function hasFailed(sql: Queryable, { shard, webhookId, responseCode, responseBody }: Recoverable): Fragment {
  if (responseCode === null && responseBody === null) return sql`where cardinality(m.failed) > 0`;
  return sql`where exists (
    select from unnest(m.failed) as f (delivery_id)
    cross join lateral (
      select a.response_code, a.response_body from attempt_log a
      where a.shard = ${shard} and a.webhook_id = ${webhookId} and a.delivery_id = f.delivery_id and a.outcome is not null
      order by a.n desc limit 1
    ) as response
    where true ${responseCode === null ? sql`` : sql`and response_code = ${responseCode}`}
      ${isText(sql, 'response_body', responseBody)})`;
}

/**
 * Returns the next events that the webhook missed: it subscribes to them, they are within the limits of the recovery and not erased,
 * and they have neither a successful delivery to this webhook nor one that is pending under its current epoch. A refeed is sent to
 * selected webhooks only, so a refeed counts if the webhook has a delivery of it that failed or that belongs to an older epoch. Events
 * and deliveries are committed together and the statement has one snapshot, so a concurrent publish is either seen completely or not at
 * all.
 *
 * The query counts a union, whose cost is the sum of its parts; a join becomes a nested loop if the planner estimates that one
 * part is empty. Deliveries are found by webhook: those of the day of the event, on which publishes create theirs, and by an
 * index those of later days, which recoveries and resends create. The cost therefore depends on the deliveries of this webhook
 * on that day, not on its history or on other webhooks.
 *
 * 10,000 of 10⁵ events of a day with 10⁵ finished deliveries of the webhook took 100 to 450 ms on a busy machine. Finding
 * deliveries by event through the brin index of delivery_done took 910 ms for 1,000 events: an array of ids reads the whole
 * index once per id, and a range of ids reads all deliveries between two events of a quiet store.
 */
export async function findMissed(
  sql: Queryable,
  recovery: Recoverable,
  { after, upTo, limit }: MissedQuery,
): Promise<Missed> {
  const { shard, storeId, webhookId, epoch, since, until, resourceId, events } = recovery;
  const day = dayOfId(after + 1);
  const { onlyFailed, responseCode, responseBody } = recovery;
  const isOfFailed = onlyFailed || responseCode !== null || responseBody !== null;
  const ended = (more: Fragment) => sql`
    select event_id, null, state = 'successful', case when state = 'failed' then id end from delivery_done
    where shard = ${shard} and webhook_id = ${webhookId} and event_id > ${after} and event_id <= ${upTo} and ${more}`;
  const [row] = await sql<Missed[]>`
    with seen as materialized (
      select e.id, row_number() over (order by e.id) as place, e.action = ${REFEED} as is_refeed,
        e.date_created >= ${since} and (${until}::timestamptz is null or e.date_created < ${until})
          and octet_length(e.body) > 0
          and (e.resource_type || '/' || e.action) = any (${events}::text[]) ${isText(sql, 'resource_id', resourceId)} as is_wanted
      from (
        select id, date_created, body, resource_type, resource_id, action from event
        where shard = ${shard} and store_id = ${storeId} and id > ${after} and id <= ${upTo}
        order by id limit ${limit}
      ) as e
    ), candidate as (
      select id, place, case when not is_refeed then false end as has_it, null::bigint as failed from seen where is_wanted
      union all
      select d.event_id, null, d.epoch = ${epoch}, case when d.epoch < ${epoch} then d.id end from delivery d
      where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.due_at > '-infinity' and d.event_id > ${after} and d.event_id <= ${upTo}
      union all
      ${ended(sql`id >= ${firstIdOfDay(day)} and id < ${firstIdOfDay(day + 1)}`)}
      union all
      ${ended(sql`(id >> 38) <> (event_id >> 38)`)}
    ), missed as (
      select id, max(place) as place, array_remove(array_agg(failed), null) as failed
      from candidate group by id having count(place) = 1 and not bool_or(has_it)
    ), chosen as materialized (
      select m.id, m.place, m.failed from missed m ${isOfFailed ? hasFailed(sql, recovery) : sql``}
    )
    select (select count(*) from seen) as seen, (select max(id) from seen) as last,
      array(select id from chosen order by id) as ids, array(select place from chosen order by id) as places,
      array(select f from chosen, unnest(failed) as f order by id) as failed,
      array(select id from chosen, unnest(failed) as f order by id) as "failedOf"`;
  return row ?? { seen: 0, last: null, ids: [], places: [], failed: [], failedOf: [] };
}

/** `stopped`: the webhook was disabled or lost its url. */
export type End = 'finished' | 'cancelled' | 'stopped';

export type WebhookKey = { shard: number; webhookId: number };
export type RecoveryKey = { shard: number; id: number };

/**
 * The events to recover: since a date, before `until`, of the kind `event` and the resource `resourceId`; with `onlyFailed` those with a
 * failed delivery, and with `responseCode` and `responseBody` those with one whose last response had this status and text. Texts may
 * contain `*` for any text, except `event`. Null: not limited.
 */
export type RecoveredPart = {
  since: Date;
  until: Date | null;
  event: string | null;
  onlyFailed: boolean;
  resourceId: string | null;
  responseCode: number | null;
  responseBody: string | null;
};

/** `loadedType`: the type of the loaded resources to send, modified in the period; null to send missed events. */
export type NewRecovery = RecoveryKey &
  RecoveredPart & { storeId: number; webhookId: number; epoch: number; loadedType: string | null; now: Date };

/**
 * Inserts a recovery; to be called in the transaction that has locked the row of the webhook and read that it is enabled.
 * Publishes that begin later see it enabled and create deliveries. Publishes that began before may have seen it disabled, so
 * the ids of the transactions that are open now are stored, and the recovery waits until they end (`isAnyOpen`).
 */
export async function insertRecovery(tx: Queryable, recovery: NewRecovery): Promise<void> {
  const { shard, id, storeId, webhookId, epoch, since, until, event, now } = recovery;
  const { onlyFailed, resourceId, responseCode, responseBody, loadedType } = recovery;
  const older = await openTransactions(tx);
  await tx`
    insert into recovery (shard, id, store_id, webhook_id, epoch, since, until, event, only_failed, resource_id, response_code, response_body, loaded_type,
      state, older_transactions, date_created, date_modified)
    values (${shard}, ${id}, ${storeId}, ${webhookId}, ${epoch}, ${since}, ${until}, ${event}, ${onlyFailed}, ${resourceId}, ${responseCode},
      ${responseBody}, ${loadedType}, 'waiting', ${older}::text[], ${now}, ${now})`;
}

/** Stops unfinished recoveries of older epochs, because a unique index allows one unfinished recovery per webhook. */
export async function stopOlder(
  tx: Queryable,
  { shard, webhookId, epoch, now }: Pick<NewRecovery, 'shard' | 'webhookId' | 'epoch' | 'now'>,
): Promise<void> {
  await tx`
    update recovery set state = 'stopped', date_modified = ${now}, date_ended = ${now}
    where shard = ${shard} and webhook_id = ${webhookId} and state in ('waiting', 'running') and epoch <> ${epoch}`;
}

/** Returns the id of the unfinished recovery of a webhook. */
export async function findOpen(sql: Queryable, { shard, webhookId }: WebhookKey): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    select id from recovery
    where shard = ${shard} and webhook_id = ${webhookId} and state in ('waiting', 'running')`;
  return row?.id;
}

/** Ends the recovery. Returns false if it had ended already. */
export async function endRecovery(sql: Queryable, { shard, id }: RecoveryKey, state: End, now: Date): Promise<boolean> {
  const { count } = await sql`
    update recovery set state = ${state}, date_modified = ${now}, date_ended = ${now}
    where shard = ${shard} and id = ${id} and state in ('waiting', 'running')`;
  return count > 0;
}

/** An unfinished recovery with the state of its webhook. */
export type OpenRecovery = RecoveryKey &
  Omit<RecoveredPart, 'event'> & {
    storeId: number;
    webhookId: number;
    epoch: number;
    state: 'waiting' | 'running';
    olderTransactions: string[];
    afterEventId: number;
    untilEventId: number | null;
    loadedType: ResourceType | null;
    /** The cursor of a recovery of loaded resources: the last one that was examined; empty before the first. */
    afterResourceId: string;
    eventsSeen: number;
    eventsRecovered: number;
    /** Events that the webhook subscribes to, and the refeed event of its resource; one if the recovery is limited to it. */
    events: string[];
    /** The filter of the webhook and its id; null if it has none. */
    filter: string | null;
    filterId: string | null;
    /** Whether the webhook was disabled since or has no url. */
    isWebhookInactive: boolean;
  };

/** What decides which events a recovery sends. */
export type Recoverable = Pick<OpenRecovery, 'shard' | 'storeId' | 'webhookId' | 'epoch' | 'events' | 'filter'> &
  Omit<RecoveredPart, 'event'>;

/** SQL condition: the webhook is still enabled, in the same epoch, and has a url. */
const isWebhookActive = (sql: Queryable) => sql`(w.epoch = r.epoch and w.is_active and w.url is not null)`;

/**
 * Names of the events that can be sent to the webhook `w`: webhooks do not subscribe to refeeds and need not subscribe to erasures, but
 * receive those of their resource.
 */
export function deliverableTo(sql: Queryable): Fragment {
  return sql`array_remove(w.events || (w.event_resource || '/' || ${REFEED}) || (w.event_resource || '/' || ${ERASED}), null)`;
}

/** The same for a recovery. One of a single event ends without deliveries if the webhook does not subscribe to it any more. */
const deliverableEvents = (sql: Queryable, event = sql`r.event`) => sql`
  case when ${event} is null then ${deliverableTo(sql)}
    else array(select ${event} where ${event} = any(w.events)) end as events`;

/** Returns what a recovery of the webhook that begins now would send by, all events or one kind; undefined if there is no webhook. */
export async function findRecoverable(
  sql: Queryable,
  { shard, webhookId, event }: WebhookKey & Pick<RecoveredPart, 'event'>,
): Promise<Pick<Recoverable, 'epoch' | 'events' | 'filter'> | undefined> {
  const [row] = await sql<Pick<Recoverable, 'epoch' | 'events' | 'filter'>[]>`
    select w.epoch, w.filter, ${deliverableEvents(sql, sql`${event}::text`)}
    from webhook w where w.shard = ${shard} and w.id = ${webhookId}`;
  return row;
}

/** Returns the next `limit` unfinished recoveries of these shards. */
export function openRecoveries(
  sql: Queryable,
  shards: readonly number[],
  after: WebhookKey,
  limit: number,
): Promise<OpenRecovery[]> {
  return sql<OpenRecovery[]>`
  select r.shard, r.id, r.store_id as "storeId", r.webhook_id as "webhookId", r.epoch, r.since, r.until, r.only_failed as "onlyFailed", r.resource_id as "resourceId",
    r.response_code as "responseCode", r.response_body as "responseBody", r.state,
    r.older_transactions as "olderTransactions", r.after_event_id as "afterEventId", r.until_event_id as "untilEventId",
    r.loaded_type as "loadedType", r.after_resource_id as "afterResourceId", r.events_seen as "eventsSeen", r.events_recovered as "eventsRecovered", ${deliverableEvents(sql)}, w.filter, w.filter_id::text as "filterId", not ${isWebhookActive(sql)} as "isWebhookInactive"
  from recovery r
  join webhook w on w.shard = r.shard and w.id = r.webhook_id
  where r.shard = any (${shards}::smallint[]) and r.state in ('waiting', 'running')
    and (r.shard, r.webhook_id) > (${after.shard}, ${after.webhookId})
  order by r.shard, r.webhook_id
  limit ${limit}`;
}

/**
 * Starts the recovery, up to the newest visible event. Returns the number of events to examine; undefined if it has started or
 * ended already. This has to be a separate statement after `isAnyOpen`, with a newer snapshot. It counts all events
 * of the store from the beginning of the day (UTC) of `since`, which needs only the index: 10⁵ take 20 ms.
 */
export async function startRecovery(
  sql: Queryable,
  { shard, id, storeId, since, until }: OpenRecovery,
  now: Date,
): Promise<number | undefined> {
  const after = firstIdOfDay(dayOf(since)) - 1;
  const before = until === null ? sql`` : sql`and id < ${firstIdOfDay(dayOf(until) + 1)}`;
  const [row] = await sql<{ total: number }[]>`
    with found as (
      select count(*) as total, max(id) as newest from event
      where shard = ${shard} and store_id = ${storeId} and id > ${after} ${before}
    )
    update recovery r set state = 'running', after_event_id = ${after}, until_event_id = coalesce(f.newest, ${after}),
      events_total = f.total, date_modified = ${now}
    from found f
    where r.shard = ${shard} and r.id = ${id} and r.state = 'waiting'
    returning f.total`;
  return row?.total;
}

/** Counts the first `limit` pending deliveries of the webhook, and how many of them are due. */
export async function pendingOf(
  sql: Queryable,
  { shard, webhookId }: WebhookKey,
  limit: number,
  now: Date,
): Promise<{ total: number; due: number }> {
  const [row] = await sql<{ total: number; due: number }[]>`
    select count(*) as total, count(*) filter (where due_at <= ${now}) as due
    from (
      select due_at from delivery where shard = ${shard} and webhook_id = ${webhookId} and due_at > '-infinity'
      order by due_at, id limit ${limit}
    ) as d`;
  return row ?? { total: 0, due: 0 };
}

type PublishedVersion = FilteredEvent & { eventId: number; action: string };

/** Returns the published versions of events that are not erased. */
export function versionsOf(
  sql: Queryable,
  { shard, storeId }: Pick<OpenRecovery, 'shard' | 'storeId'>,
  eventIds: readonly number[],
): Promise<PublishedVersion[]> {
  return sql<PublishedVersion[]>`
    select id as "eventId", resource_type as type, action, resource_id as "resourceId", date_created as "publishedAt", time_zone as "timeZone", body from event
    where shard = ${shard} and id = any (${eventIds}::bigint[]) and store_id = ${storeId} and octet_length(body) > 0
    order by id`;
}

/**
 * A page: the cursor moves from `from` to `to` over `seen` events, and the events in `eventIds` get a delivery. `failed`: the earlier deliveries of
 * these events.
 */
export type Page = { from: number; to: number; seen: number; eventIds: readonly number[]; failed: readonly number[] };

/**
 * Writes the deliveries of a page and moves the cursor. `isMoved` is false if the cursor is elsewhere, because another process
 * has written the page, the recovery has ended, the webhook is disabled or its filter has changed; the caller must then roll back.
 */
export async function writePage(
  tx: Queryable,
  { shard, id, filterId }: RecoveryKey & Pick<OpenRecovery, 'filterId'>,
  { from, to, seen, eventIds, failed }: Page,
  now: Date,
): Promise<{ isMoved: boolean; deliveryIds: number[] }> {
  const day = dayOf(now);
  const [row] = await tx<{ isMoved: boolean; deliveryIds: number[] }[]>`
    with target as materialized (
      select r.shard, r.id, r.store_id, r.webhook_id, r.epoch, w.ordering is not null as is_ordered, ${deliverableEvents(tx)}
      from recovery r
      join webhook w on w.shard = r.shard and w.id = r.webhook_id and ${isWebhookActive(tx)}
        and w.filter_id is not distinct from ${filterId}::bigint
      where r.shard = ${shard} and r.id = ${id}
    ), made as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select t.shard, ${nextDeliveryId(tx, day, tx`t.shard`)}, t.store_id, t.webhook_id, t.epoch,
        e.id, ${now}
      from target t
      join event e on e.shard = ${shard} and e.id = any (${eventIds}::bigint[]) and e.store_id = t.store_id
        and octet_length(e.body) > 0 and (e.resource_type || '/' || e.action) = any (t.events)
      order by e.id
      returning shard, id, store_id, webhook_id, event_id
    ), ${resentAs(tx, { shard, webhook: tx`(select webhook_id from target)`, earlier: tx`${failed}::bigint[]`, now })}, ordered as (
      insert into delivery_order (shard, delivery_id, webhook_id, resource_key, version)
      select m.shard, m.id, m.webhook_id, ${resourceKey(tx, tx`e`)}, e.version
      from made m
      cross join lateral (
        select * from event e where e.shard = m.shard and e.store_id = m.store_id and e.id = m.event_id limit 1
      ) as e
      where exists (select from target where is_ordered) and e.version > 0
    ), moved as (
      update recovery r set after_event_id = ${to}, events_seen = r.events_seen + ${seen}, date_modified = ${now},
        events_recovered = r.events_recovered + (select count(*) from made)
      from target t
      where r.shard = t.shard and r.id = t.id and r.state = 'running' and r.after_event_id = ${from}
      returning 1
    )
    select (select count(*) from moved) = 1 as "isMoved", array(select id from made order by id) as "deliveryIds"`;
  return row ?? { isMoved: false, deliveryIds: [] };
}

/** An unfinished recovery of loaded resources. */
export type OpenRecoveryOfLoaded = OpenRecovery & { loadedType: ResourceType };

/** What decides which loaded resources a recovery sends, after the last one that was examined. */
type LoadedQuery = Pick<
  OpenRecoveryOfLoaded,
  'shard' | 'storeId' | 'loadedType' | 'afterResourceId' | 'since' | 'until' | 'resourceId'
>;

/** Starts it. Returns the number of resources to examine; undefined if it has started or ended already. 10⁶ take 0.2 s to count. */
export async function startRecoveryOfLoaded(
  sql: Queryable,
  { shard, id, storeId, loadedType }: OpenRecoveryOfLoaded,
  now: Date,
): Promise<number | undefined> {
  const [row] = await sql<{ total: number }[]>`
    with found as (
      select count(*) as total from resource where shard = ${shard} and store_id = ${storeId} and type = ${loadedType} and length(type) > 0
    )
    update recovery r set state = 'running', until_event_id = 0, events_total = f.total, date_modified = ${now}
    from found f
    where r.shard = ${shard} and r.id = ${id} and r.state = 'waiting'
    returning f.total`;
  return row?.total;
}

/** `seen`: the number of resources that were examined; `last`: the last one. `ids`: those to send. */
export type LoadedPage = { seen: number; last: string; ids: string[] };

/**
 * Returns the next resources to send, at most `limit`: those whose latest version was loaded, and that match the limits of the
 * recovery. Examines at most `examined` resources; undefined if none is left.
 */
export async function findLoaded(
  sql: Queryable,
  { shard, storeId, loadedType, afterResourceId, since, until, resourceId }: LoadedQuery,
  { limit, examined }: { limit: number; examined: number },
): Promise<LoadedPage | undefined> {
  const rows = await sql<LoadedPage[]>`
    with seen as materialized (
      select id, row_number() over (order by length(id), id) as place,
        event_id = ${NO_EVENT} and date_deleted is null and modified_at >= ${since}
          and (${until}::timestamptz is null or modified_at < ${until}) ${isText(sql, 'id', resourceId)} as is_wanted
      from (
        select id, event_id, date_deleted, modified_at from resource
        where shard = ${shard} and store_id = ${storeId} and type = ${loadedType} and length(type) > 0
          and (length(id), id) > (length(${afterResourceId}::text), ${afterResourceId}::text)
        order by length(id), id limit ${examined}
      ) as r
    ), wanted as (
      select id, place from seen where is_wanted order by place limit ${limit}
    ), page as (
      select case when (select count(*) from wanted) = ${limit} then (select max(place) from wanted) else (select max(place) from seen) end as seen
    )
    select p.seen, s.id as last, array(select id from wanted order by id) as ids from page p join seen s on s.place = p.seen`;
  return rows[0];
}

/**
 * Moves the cursor over a page, before its deliveries are written, and locks the recovery. Returns false if the cursor is elsewhere, or the
 * webhook was disabled since: then nothing may be written.
 */
export async function moveLoaded(
  tx: Queryable,
  { shard, id, afterResourceId }: OpenRecovery,
  { seen, last }: Pick<LoadedPage, 'seen' | 'last'>,
  now: Date,
): Promise<boolean> {
  const { count } = await tx`
    update recovery r set after_resource_id = ${last}, events_seen = r.events_seen + ${seen}, date_modified = ${now}
    from webhook w
    where r.shard = ${shard} and r.id = ${id} and r.state = 'running' and r.after_resource_id = ${afterResourceId}
      and w.shard = r.shard and w.id = r.webhook_id and ${isWebhookActive(tx)}`;
  return count > 0;
}

/** Adds the deliveries of a page to those of the recovery. */
export async function countLoaded(tx: Queryable, { shard, id }: RecoveryKey, made: number): Promise<void> {
  await tx`update recovery set events_recovered = events_recovered + ${made} where shard = ${shard} and id = ${id}`;
}
