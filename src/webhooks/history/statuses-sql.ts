/** The read-only statements of the lists of attempts, and of deliveries to all webhooks: those of an event, and the webhooks of a store. */
import { narrowed, ordered, paged, type Columns, atLeast, readPage, totalOf } from '#db/list-conditions.ts';
import type { Queryable, Sql, Fragment } from '#db/pool.ts';
import type { Listing, Filter } from '#core/listing.ts';
import { firstIdOfDay, dayOfId, type StoreKey } from '#core/ids.ts';
import { countedRows, readDayCounts, type DayCounts } from '#db/day-counts.ts';
import { findEventsOfResource, withTypeAndAction } from '#events/events-sql.ts';
import { historySeenBy, type SeenStore, notArrivedFlag } from '../webhook-sql.ts';
import type { LOG_PROPERTIES } from './history-documents.ts';
import {
  withLastAttempt,
  type DeliveryRow,
  type Owner,
  attemptSelection,
  eventColumns,
  needs,
  ownedBy,
  withEvent,
  withShownEvent,
  type AttemptRow,
} from './history-sql.ts';
import { findDeliveriesOfEvents, foundColumns } from './deliveries-sql.ts';

/** `app`: the app that calls, or null. */
type EventKey = StoreKey & { eventId: number; app: number | null };

type DeliveryOfEvent = DeliveryRow & { webhookId: number; isWebhookGone: boolean };

const ofEvent = (sql: Queryable, { shard, storeId, eventId, app }: EventKey) => sql`
  left join webhook w on w.shard = d.shard and w.id = d.webhook_id and w.store_id = d.store_id
  left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
  where d.shard = ${shard} and d.store_id = ${storeId} and d.event_id = ${eventId} ${historySeenBy(sql, app)}`;

type Page = { timeZone: string; total: number; rows: DeliveryOfEvent[] };

/**
 * Returns a page of an event's deliveries, newest first by default, and their total; undefined if the store has no such event. A
 * pending delivery of an older epoch or a deleted webhook is shown as failed, even before a worker has ended it. A delivery is
 * never older than its event, so earlier partitions are not read.
 */
export async function listDeliveriesOfEvent(
  sql: Queryable,
  key: EventKey,
  listing: Listing,
): Promise<Page | undefined> {
  const order = listing.order.length > 0 ? listing.order : [{ property: 'id', descending: true }];
  const columns = foundColumns(sql, {
    response_body: sql`d.response_body`,
    not_arrived: notArrivedFlag(sql, key.shard),
  });
  const sorted = sql`order by ${ordered(sql, order, columns, [sql`d.id`])}`;
  const rows = await sql<({ timeZone: string; total: number } & (DeliveryOfEvent | { id: null }))[]>`
    with delivered as (
      select d.id, d.webhook_id, d.epoch is distinct from w.epoch as is_stale, null as state, d.attempts,
        greatest(nullif(d.due_at, 'infinity'), t.paused_until, t.probe_at) as due_at, null::timestamptz as date_ended, null::bigint as resent_as, w.id is null as is_gone
      from delivery d ${ofEvent(sql, key)}
      union all
      select d.id, d.webhook_id, false, d.state, d.attempts, null, d.date_ended, d.resent_as, w.id is null
      from delivery_done d ${ofEvent(sql, key)} and d.id >= ${firstIdOfDay(dayOfId(key.eventId))}
    ), known as (
      select d.*, coalesce(d.state, case when d.is_stale then 'failed' else 'pending' end) as status,
        case when not d.is_stale then d.due_at end as date_next, a.outcome, a.response_code, a.response_body
      from delivered d ${withLastAttempt(sql, key)}
    ), found as materialized (
      select d.* from event e cross join known d
      where e.shard = ${key.shard} and e.id = ${key.eventId} and e.store_id = ${key.storeId}
        ${narrowed(sql, listing.filters, columns)}
    )
    select s.time_zone as "timeZone", (select count(*) from found) as total, d.id, d.webhook_id as "webhookId",
      d.is_gone as "isWebhookGone", d.status, d.attempts, d.date_next as "dateNext", d.date_ended as "dateEnded",
      d.resent_as as "resentAs", e.id as "eventId", e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated",
      d.outcome, d.response_code as "responseCode"
    from event e
    join store s on s.shard = e.shard and s.id = e.store_id
    left join lateral (select d.* from found d ${sorted} ${paged(sql, listing)}) d on true
    where e.shard = ${key.shard} and e.id = ${key.eventId} and e.store_id = ${key.storeId}
    ${sorted}`;
  const [first] = rows;
  if (first === undefined) return undefined;
  const { timeZone, total } = first;
  return { timeZone, total, rows: rows.flatMap((row) => (row.id === null ? [] : [row])) };
}

/** One row without a webhook if the store has none. */
type OwnerRow = { timeZone: string; heldUntil: Date | null } & (
  | { id: number; epoch: number }
  | { id: null; epoch: null }
);

/** Returns the time zone of the store and its webhooks whose deliveries the caller sees, of which it has at most 100; undefined if the store does not exist. */
export async function readOwners(
  sql: Sql,
  { shard, storeId, app }: SeenStore,
): Promise<{ timeZone: string; owners: Owner[] } | undefined> {
  const rows = await sql.reads<OwnerRow[]>`
    select s.time_zone as "timeZone", w.id, w.epoch, greatest(t.paused_until, t.probe_at) as "heldUntil"
    from store s
    left join webhook w on w.shard = s.shard and w.store_id = s.id ${historySeenBy(sql, app)}
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    where s.shard = ${shard} and s.id = ${storeId}
    order by w.id`;
  const [first] = rows;
  if (first === undefined) return undefined;
  const owners = rows.flatMap(({ id, epoch, heldUntil }) =>
    id === null ? [] : [{ shard, storeId, id, epoch, heldUntil }],
  );
  return { timeZone: first.timeZone, owners };
}

const BY_EVENT: ReadonlySet<string> = new Set(['resource_type', 'resource_id', 'action', 'event']);

const attemptColumns = (sql: Queryable): Columns<typeof LOG_PROPERTIES> => ({
  id: sql`d.delivery_id || '-' || d.n`,
  webhook_id: sql`d.webhook_id`,
  attempt: sql`d.n`,
  response_code: sql`d.response_code`,
  duration: sql`d.duration_ms`,
  outcome: sql`d.outcome`,
  date_created: sql`d.date_started`,
  ...eventColumns(sql),
});

/** All attempts, by the index of the webhook's log. */
const inLog = (sql: Queryable) => sql`and d.date_started > '-infinity'`;

/** Returns a page of attempts, newest first by default, and their total. */
export async function listAttempts(
  sql: Queryable,
  owner: Owner,
  listing: Listing,
): Promise<{ rows: AttemptRow[]; total: number }> {
  const newestFirst = { property: 'date_created', descending: true };
  const ofResource = await findEventsOfResource(sql, owner, listing.filters);
  const asked = { ...listing, filters: withTypeAndAction(ofResource?.others ?? listing.filters) };
  // The log of the webhook has no index by event: the deliveries of the events have one by id.
  const deliveries = ofResource && (await findDeliveriesOfEvents(sql, owner, ofResource.ids));
  const within =
    deliveries === undefined
      ? inLog(sql)
      : sql`and d.outcome is not null and d.delivery_id = any(${deliveries}::bigint[])`;
  const counts =
    listing.filters.length === 0
      ? await readDayCounts(sql, { shard: owner.shard, ownerIds: [owner.id], list: 'attempt' })
      : undefined;
  const total = await countAttempts(sql, owner, asked.filters, within, counts);
  return { total, rows: await readPage(asked, newestFirst, total, (page) => readAttempts(sql, owner, page, within)) };
}

/** Joins the event only if a filter or an order needs it; otherwise only the events of the shown page are read. */
const eventFor = (sql: Queryable, owner: Owner, { filters, order }: Pick<Listing, 'filters' | 'order'>) =>
  needs(BY_EVENT, filters, order) ? withEvent(sql, owner) : sql``;

/** Selects the keys first, because responses have up to 16 KiB each. */
async function readAttempts(sql: Queryable, owner: Owner, listing: Listing, within: Fragment): Promise<AttemptRow[]> {
  const columns = attemptColumns(sql);
  const sorted = sql`order by ${ordered(sql, listing.order, columns, [sql`d.delivery_id`, sql`d.n`])}`;
  return sql<AttemptRow[]>`
    with page as (
      select d.delivery_id, d.n from attempt_log d ${eventFor(sql, owner, listing)}
      where ${ownedBy(sql, owner)} ${within} ${narrowed(sql, listing.filters, columns)}
      ${sorted} ${atLeast(sql, listing.offset + listing.limit)}
    )
    select ${attemptSelection(sql)}
    from (select * from page ${paged(sql, listing)}) p
    join attempt_log d on ${ownedBy(sql, owner)} and d.delivery_id = p.delivery_id and d.n = p.n and d.outcome is not null
      ${withShownEvent(sql, owner)} ${sorted}`;
}

/** `counts`: those of the ended days, if the whole list is counted. */
async function countAttempts(
  sql: Queryable,
  owner: Owner,
  filters: readonly Filter[],
  within: Fragment,
  counts: DayCounts | undefined,
): Promise<number> {
  // Deliveries are counted by id, and attempts of the open days are found by the ids of their deliveries.
  const rows = counts === undefined ? within : sql`and d.outcome is not null and d.delivery_id >= ${counts.openFrom}`;
  const total = totalOf(
    await sql`
    select count(*) as total from attempt_log d ${eventFor(sql, owner, { filters, order: [] })}
    where ${ownedBy(sql, owner)} ${rows} ${narrowed(sql, filters, attemptColumns(sql))}`,
  );
  return counts === undefined ? total : total + countedRows(counts);
}
