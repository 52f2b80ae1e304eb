/** The read-only statements of deliveries and attempts, which the modules events and delivery write. */
import type { ResourceType } from '#catalog/catalog.ts';
import { countedRows, locate, readDayCounts, type DayCounts } from '#db/day-counts.ts';
import { atLeast, idsWithin, narrowed, ordered, paged, readPage, totalOf, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import { findEventsOfResource, type ResourceEvents } from '#events/resource-events-sql.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';
import type { Filter, Listing, Order } from '#core/listing.ts';
import type { LOG_PROPERTIES, STATUS_PROPERTIES } from './document.ts';

/**
 * The webhook whose history is read, as its row was read: the row proves the store. Pending deliveries of an older `epoch` have
 * failed, and none is sent before `heldUntil`.
 */
export type Owner = { shard: number; storeId: number; id: number; epoch: number; heldUntil: Date | null };

/** The event of a delivery; its members are null if the event has expired. */
type EventSummary = {
  eventId: number;
  type: ResourceType | null;
  resourceId: string | null;
  action: string | null;
};

export type DeliveryRow = EventSummary & {
  id: number;
  status: 'pending' | 'successful' | 'failed';
  attempts: number;
  dateNext: Date | null;
  dateCreated: Date | null;
  dateEnded: Date | null;
  /** Outcome of the last attempt; null if there was none. */
  outcome: string | null;
  responseCode: number | null;
};

/** Without the store, which no index has: a count read the rows of all partitions, 206 ms instead of 51 for the first page. */
const ownedBy = (sql: Queryable, { shard, id }: Owner) => sql`d.shard = ${shard} and d.webhook_id = ${id}`;

/** Joins the event `e` of the delivery or attempt `d`. */
export function withEvent(sql: Queryable, { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>) {
  return sql`left join event e on e.shard = ${shard} and e.id = d.event_id and e.store_id = ${storeId}`;
}

/** Joins the last attempt `a` of the delivery `d`; `limit 1` makes the planner use the primary key whatever its statistics. */
export function withLastAttempt(sql: Queryable, { shard }: Pick<Owner, 'shard'>) {
  return sql`
  left join lateral (
    select outcome, response_code from attempt_log
    where shard = ${shard} and webhook_id = d.webhook_id and delivery_id = d.id and n = d.attempts
      and outcome is not null
    limit 1
  ) as a on true`;
}

const eventColumns = (sql: Queryable) => ({
  resource_type: sql`e.resource_type`,
  resource_id: sql`e.resource_id`,
  event: sql`e.resource_type || '/' || e.action`,
});

const LOG_BY_EVENT = new Set(['resource_type', 'resource_id', 'event']);
/** The creation date of a delivery is that of its event. */
const STATUS_BY_EVENT = LOG_BY_EVENT.union(new Set(['date_created']));

/**
 * Joins the event only if a filter or an order needs it; otherwise only the events of the shown page are read. With 355,000
 * deliveries of one webhook (bench/lists.ts), the newest and the failed ones take 7 to 9 ms, those of a day 240 ms, and those of one
 * kind of event 1.4 s.
 */
const eventFor = (
  sql: Queryable,
  owner: Owner,
  byEvent: ReadonlySet<string>,
  filters: readonly Filter[],
  order: readonly Order[] = [],
) => {
  if (![...filters, ...order].some(({ property }) => byEvent.has(property))) return sql``;
  const range = byEvent.has('date_created') ? idsWithin(filters, 'date_created') : undefined;
  // Otherwise PostgreSQL may read the events of all days for a join with those of one.
  return range === undefined
    ? withEvent(sql, owner)
    : sql`${withEvent(sql, owner)} and e.id >= ${range.from} and e.id < ${range.to}`;
};

type Fragment = ReturnType<typeof withEvent>;

const deliveryColumns = (
  sql: Queryable,
  stateColumns: Record<'status' | 'date_next' | 'date_ended', Fragment>,
): Columns<typeof STATUS_PROPERTIES> => ({
  id: sql`d.id`,
  webhook_id: sql`d.webhook_id`,
  attempts: sql`d.attempts`,
  date_created: sql`e.date_created`,
  ...eventColumns(sql),
  ...stateColumns,
});

/** Rows of a table `within` an index and the `narrowing` filters, which `within` does not imply. */
type Part = {
  table: Fragment;
  columns: Columns<typeof STATUS_PROPERTIES>;
  within: Fragment;
  narrowing: readonly Filter[];
};

/** A pending delivery of an older epoch is shown as failed, even before a worker has ended it. */
const pendingPart = (sql: Queryable, { epoch, heldUntil }: Owner, narrowing: readonly Filter[] = []): Part => ({
  narrowing,
  table: sql`delivery`,
  columns: deliveryColumns(sql, {
    status: sql`case when d.epoch < ${epoch} then 'failed' else 'pending' end`,
    // Deliveries of pull webhooks are due at infinity, which is shown as null.
    date_next: sql`case when d.epoch >= ${epoch} then
      greatest(nullif(d.due_at, 'infinity'), ${heldUntil}::timestamptz) end`,
    date_ended: sql`null::timestamptz`,
  }),
  within: sql`and d.due_at > '-infinity'`,
});

const endedPart = (sql: Queryable, within: Fragment, narrowing: readonly Filter[] = []): Part => ({
  narrowing,
  table: sql`delivery_done`,
  columns: deliveryColumns(sql, {
    status: sql`d.state`,
    date_next: sql`null::timestamptz`,
    date_ended: sql`d.date_ended`,
  }),
  within,
});

/** Returns the state that a filter requires; undefined if none does. */
const requiredState = (filters: readonly Filter[]) =>
  filters.find(({ property, operator }) => property === 'status' && operator === 'is')?.value;

/** The condition of the index of retried deliveries says the same as this filter. */
const isRetried = ({ property, operator, value }: Filter): boolean =>
  property === 'attempts' && operator === 'greaterthan' && value === 1;

/**
 * Returns what to read for these filters. A condition without parameters chooses the index of failed or of retried deliveries. A
 * range of dates is a range of ids, a day wider at both ends: of deliveries of the day of their event (`id >> 38` is the day of an
 * id), and of later ones, which have an index of their own.
 */
function partsFor(sql: Queryable, owner: Owner, filters: readonly Filter[], ofResource?: ResourceEvents): Part[] {
  if (ofResource !== undefined) return partsOfEvents(sql, owner, ofResource);
  const state = requiredState(filters);
  const failed = state === 'failed' ? sql`and d.state = 'failed'` : sql``;
  const retried = filters.some(isRetried) ? sql`and d.attempts > 1` : sql``;
  const narrowing = filters.filter((filter) => !isRetried(filter));
  const range = idsWithin(filters, 'date_created');
  const ended =
    range === undefined
      ? [sql``]
      : [
          sql`and d.id >= ${range.from} and d.id < ${range.to} and (d.id >> 38) = (d.event_id >> 38)`,
          sql`and d.event_id >= ${range.from} and d.event_id < ${range.to} and (d.id >> 38) <> (d.event_id >> 38)`,
        ];
  return [
    ...(state === 'successful' ? [] : [pendingPart(sql, owner, filters)]),
    ...(state === 'pending' ? [] : ended.map((dates) => endedPart(sql, sql`${failed} ${retried} ${dates}`, narrowing))),
  ];
}

/** No delivery is older than its event, so partitions before the oldest event are not read. */
function partsOfEvents(sql: Queryable, owner: Owner, { ids, others }: ResourceEvents): Part[] {
  const oldest = ids.reduce((least, id) => Math.min(least, id), Number.MAX_SAFE_INTEGER);
  const pending = pendingPart(sql, owner, others);
  const among = sql`and d.event_id = any(${ids}::bigint[])`;
  return [
    { ...pending, within: sql`${pending.within} ${among}` },
    endedPart(sql, sql`${among} and d.id >= ${firstIdOfDay(dayOfId(oldest))}`, others),
  ];
}

const NEWEST_FIRST = { property: 'id', descending: true };

/** Returns a page of deliveries, newest first by default, and their total. */
export async function listDeliveries(
  sql: Queryable,
  owner: Owner,
  listing: Listing,
): Promise<{ rows: DeliveryRow[]; total: number }> {
  const { order, offset } = listing;
  const ofResource = await findEventsOfResource(sql, owner, listing.filters);
  const filters = ofResource?.others ?? listing.filters;
  const parts = partsFor(sql, owner, filters, ofResource);
  const counts = await readDayCounts(sql, { shard: owner.shard, ownerId: owner.id, list: 'delivery' });
  const total =
    ofResource === undefined
      ? await countDeliveries(sql, owner, filters, counts)
      : await countParts(sql, owner, parts, filters);
  const isWhole = listing.filters.length === 0 && order.length === 0;
  const start = isWhole ? locate(counts, total, offset) : undefined;
  if (start === undefined)
    return {
      total,
      rows: await readPage({ ...listing, filters }, NEWEST_FIRST, total, (page) =>
        readDeliveries(sql, owner, page, parts),
      ),
    };
  const page = { ...listing, order: [NEWEST_FIRST], offset: start.offset };
  return { total, rows: await readDeliveries(sql, owner, page, [endedPart(sql, sql`and d.id < ${start.before}`)]) };
}

/** Returns the delivery with this id; undefined if the webhook has none or it has expired. */
export async function findDelivery(sql: Queryable, owner: Owner, id: number): Promise<DeliveryRow | undefined> {
  const filters = [{ property: 'id', operator: 'is', value: id }] as const;
  const page = { offset: 0, limit: 1, order: [NEWEST_FIRST], filters };
  const [row] = await readDeliveries(sql, owner, page, partsFor(sql, owner, filters));
  return row;
}

/** Each table is limited to the rows that the page can need before the union. */
async function readDeliveries(
  sql: Queryable,
  owner: Owner,
  { filters, order, offset, limit }: Listing,
  parts: readonly Part[],
): Promise<DeliveryRow[]> {
  const ties = [sql`d.id`] as const;
  const limited = parts.map(
    ({ table, columns, within, narrowing }) => sql`(
      select d.id, d.event_id, d.webhook_id, ${columns.status} as status, d.attempts, ${columns.date_next} as date_next,
        ${columns.date_ended} as date_ended
      from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters, order)}
      where ${ownedBy(sql, owner)} ${within} ${narrowed(sql, narrowing, columns)}
      order by ${ordered(sql, order, columns, ties)} ${atLeast(sql, offset + limit)})`,
  );
  const merged = deliveryColumns(sql, {
    status: sql`d.status`,
    date_next: sql`d.date_next`,
    date_ended: sql`d.date_ended`,
  });
  const sorted = sql`order by ${ordered(sql, order, merged, ties)}`;
  return sql<DeliveryRow[]>`
    with found as (
      ${limited.reduce((before, part) => sql`${before} union all ${part}`)}
    ), page as (
      select d.* from found d ${eventFor(sql, owner, STATUS_BY_EVENT, [], order)} ${sorted} ${paged(sql, { offset, limit })}
    )
    select d.id, d.event_id as "eventId", d.status, d.attempts, d.date_next as "dateNext", d.date_ended as "dateEnded",
      e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated", a.outcome,
      a.response_code as "responseCode"
    from page d ${withEvent(sql, owner)} ${withLastAttempt(sql, owner)} ${sorted}`;
}

async function countParts(
  sql: Queryable,
  owner: Owner,
  parts: readonly Part[],
  filters: readonly Filter[],
): Promise<number> {
  const each = parts.map(
    ({ table, columns, within, narrowing }) => sql`(
      select count(*) from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters)}
      where ${ownedBy(sql, owner)} ${within} ${narrowed(sql, narrowing, columns)})`,
  );
  return totalOf(await sql`select ${each.reduce((before, one) => sql`${before} + ${one}`)} as total`);
}

/** Counts ended deliveries by day, and the deliveries that succeeded as those that did not fail. */
async function countDeliveries(
  sql: Queryable,
  owner: Owner,
  filters: readonly Filter[],
  counts: DayCounts,
): Promise<number> {
  const count = (parts: readonly Part[], wanted: readonly Filter[]) => countParts(sql, owner, parts, wanted);
  const isByState = filters.length === 1 && requiredState(filters) === 'successful';
  if (filters.length > 0 && !isByState) return count(partsFor(sql, owner, filters), filters);
  const open = endedPart(sql, sql`and d.id >= ${counts.openFrom}`);
  if (!isByState) return countedRows(counts) + (await count([pendingPart(sql, owner), open], []));
  const failed = endedPart(sql, sql`and d.state = 'failed'`);
  return countedRows(counts) + (await count([open], [])) - (await count([failed], []));
}

export type AttemptRow = EventSummary & {
  deliveryId: number;
  n: number;
  dateStarted: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
};

/** The columns of an attempt `d` and its event `e`. */
export function attemptSelection(sql: Queryable) {
  return sql`
  d.delivery_id as "deliveryId", d.n, d.event_id as "eventId", d.date_started as "dateStarted",
  d.duration_ms as "durationMs", d.outcome, d.response_code as "responseCode", d.response_headers as "responseHeaders",
  d.response_body as "responseBody", e.resource_type as type, e.resource_id as "resourceId", e.action`;
}

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
  const counts = await readDayCounts(sql, { shard: owner.shard, ownerId: owner.id, list: 'attempt' });
  const total = await countAttempts(sql, owner, listing.filters, counts);
  const newestFirst = { property: 'date_created', descending: true };
  return { total, rows: await readPage(listing, newestFirst, total, (page) => readAttempts(sql, owner, page)) };
}

/** Selects the keys first, because responses have up to 16 KiB each. */
async function readAttempts(sql: Queryable, owner: Owner, listing: Listing): Promise<AttemptRow[]> {
  const columns = attemptColumns(sql);
  const sorted = sql`order by ${ordered(sql, listing.order, columns, [sql`d.delivery_id`, sql`d.n`])}`;
  return sql<AttemptRow[]>`
    with page as (
      select d.delivery_id, d.n from attempt_log d ${eventFor(sql, owner, LOG_BY_EVENT, listing.filters, listing.order)}
      where ${ownedBy(sql, owner)} ${inLog(sql)} ${narrowed(sql, listing.filters, columns)}
      ${sorted} ${atLeast(sql, listing.offset + listing.limit)}
    )
    select ${attemptSelection(sql)}
    from (select * from page ${paged(sql, listing)}) p
    join attempt_log d on ${ownedBy(sql, owner)} and d.delivery_id = p.delivery_id and d.n = p.n and d.outcome is not null
      ${withEvent(sql, owner)} ${sorted}`;
}

async function countAttempts(
  sql: Queryable,
  owner: Owner,
  filters: readonly Filter[],
  counts: DayCounts,
): Promise<number> {
  // Deliveries are counted by id, and attempts of the open days are found by the ids of their deliveries.
  const log =
    filters.length === 0 ? sql`and d.outcome is not null and d.delivery_id >= ${counts.openFrom}` : inLog(sql);
  const total = totalOf(
    await sql`
    select count(*) as total from attempt_log d ${eventFor(sql, owner, LOG_BY_EVENT, filters)}
    where ${ownedBy(sql, owner)} ${log} ${narrowed(sql, filters, attemptColumns(sql))}`,
  );
  return filters.length === 0 ? total + countedRows(counts) : total;
}
