/** The read-only statements that list deliveries. Pending deliveries and ended ones are in different tables. */
import { countedRows, locate, readDayCounts, readKindCounts, type CountedList } from '#db/day-counts.ts';
import { atLeast, narrowed, ordered, paged, readPage, totalOf, type Columns } from '#db/list-conditions.ts';
import { EVENT_BLOCK } from '#db/partitions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import {
  findEventsOfDates,
  findEventsOfResource,
  type DatedEvents,
  type IdRange,
  withTypeAndAction,
} from '#events/events-sql.ts';
import { dayOfId, firstIdOfDay, type StoreKey } from '#core/ids.ts';
import type { Filter, Listing, Order } from '#core/listing.ts';
import type { STATUS_PROPERTIES } from './history-documents.ts';
import {
  eventColumns,
  needs,
  ownedBy,
  withEvent,
  withShownEvent,
  withLastAttempt,
  withResponse,
  type DeliveryRow as Row,
  type Owner,
} from './history-sql.ts';
import { notArrivedFlag } from '../webhook-sql.ts';

type DeliveryRow = Row & { webhookId: number };

/**
 * The webhook whose deliveries are listed, or the webhooks of a store: then `id`, `epoch` and `heldUntil` are columns of `w`, and `each`
 * returns the rows of a statement for each webhook. Therefore a page of a store costs what a page of each of its webhooks does.
 */
type Source = {
  shard: number;
  storeId: number;
  webhookIds: readonly number[];
  id: number | Fragment;
  epoch: number | Fragment;
  heldUntil: Date | null | Fragment;
  each: (rows: Fragment) => Fragment;
};

const oneWebhook = (owner: Owner): Source => ({ ...owner, webhookIds: [owner.id], each: (rows) => rows });

const allWebhooks = (sql: Queryable, owners: readonly Owner[], store: StoreKey): Source => {
  const webhookIds = owners.map(({ id }) => id);
  const each = (rows: Fragment): Fragment => sql`
    select own.*
    from unnest(${webhookIds}::bigint[], ${owners.map(({ epoch }) => epoch)}::int[],
      ${owners.map(({ heldUntil }) => heldUntil)}::timestamptz[]) as w (id, epoch, held_until)
    cross join lateral (${rows}) as own`;
  return { ...store, webhookIds, id: sql`w.id`, epoch: sql`w.epoch`, heldUntil: sql`w.held_until`, each };
};

/** The creation date of a delivery is that of its event. */
const BY_EVENT: ReadonlySet<string> = new Set([
  'resource_type',
  'resource_id',
  'action',
  'event',
  'date_created',
  'not_arrived',
]);
const BY_RESPONSE: ReadonlySet<string> = new Set(['response_code', 'response_body']);

type Ids = Pick<IdRange, 'from' | 'to'>;

type FoundColumn = 'status' | 'date_next' | 'date_ended' | 'response_code' | 'resent_as';
type OtherColumns = Readonly<Record<'response_body' | 'not_arrived', Fragment>>;

const columnsOf = (
  sql: Queryable,
  stateColumns: Record<FoundColumn, Fragment> & OtherColumns,
): Columns<typeof STATUS_PROPERTIES> => ({
  id: sql`d.id`,
  webhook_id: sql`d.webhook_id`,
  attempts: sql`d.attempts`,
  date_created: sql`e.date_created`,
  ...eventColumns(sql),
  ...stateColumns,
});

/** Returns the columns of deliveries `d` that a subquery has found in both tables, and of their events `e`. */
export function foundColumns(sql: Queryable, others: OtherColumns): Columns<typeof STATUS_PROPERTIES> {
  return columnsOf(sql, {
    status: sql`d.status`,
    date_next: sql`d.date_next`,
    date_ended: sql`d.date_ended`,
    response_code: sql`d.response_code`,
    resent_as: sql`d.resent_as`,
    ...others,
  });
}

/**
 * Rows of a table `within` an index and the `narrowing` filters, which `within` does not imply. `events`: a
 * range of the ids of their events `e`, without which PostgreSQL may read the events of all days for a join with those of one.
 * `isById`: the ids of all its rows are in the order of the dates of their events, except for those of blocks that were used at the
 * same time.
 */
type Part = {
  table: Fragment;
  columns: Columns<typeof STATUS_PROPERTIES>;
  within: Fragment;
  narrowing: readonly Filter[];
  events?: Fragment;
  isById?: boolean;
  isEnded?: true;
};

/** A pending delivery of an older epoch is shown as failed, even before a worker has ended it. */
const pendingPart = (sql: Queryable, source: Source, narrowing: readonly Filter[] = []): Part => ({
  narrowing,
  events: sql`and e.id >= (select min(d.event_id) from delivery d where ${ownedBy(sql, source)} and d.due_at > '-infinity')`,
  table: sql`delivery`,
  columns: columnsOf(sql, {
    status: sql`case when d.epoch < ${source.epoch} then 'failed' else 'pending' end`,
    // Deliveries of pull webhooks are due at infinity, which is shown as null.
    date_next: sql`case when d.epoch >= ${source.epoch} then
      greatest(nullif(d.due_at, 'infinity'), ${source.heldUntil}::timestamptz) end`,
    date_ended: sql`null::timestamptz`,
    response_code: sql`r.response_code`,
    response_body: sql`r.response_body`,
    resent_as: sql`null::bigint`,
    not_arrived: sql`'0'`,
  }),
  within: sql`and d.due_at > '-infinity'`,
});

const endedPart = (
  sql: Queryable,
  { shard }: Pick<Source, 'shard'>,
  within: Fragment,
  rest: Pick<Part, 'events' | 'isById'> & { narrowing?: readonly Filter[] } = {},
): Part => ({
  narrowing: [],
  ...rest,
  isEnded: true,
  table: sql`delivery_done`,
  columns: columnsOf(sql, {
    status: sql`d.state`,
    date_next: sql`null::timestamptz`,
    date_ended: sql`d.date_ended`,
    response_code: sql`coalesce(d.response_code, r.response_code)`,
    response_body: sql`coalesce(d.response_body, r.response_body)`,
    resent_as: sql`d.resent_as`,
    not_arrived: notArrivedFlag(sql, shard),
  }),
  within,
});

/** Deliveries of the day of their event; `id >> 38` is the day of an id. */
const ofTheirDay = (sql: Queryable) => sql`and (d.id >> 38) = (d.event_id >> 38)`;

/** Deliveries of a later day than their event, such as resent ones. Those that have ended have an index of their own. */
const ofLaterDays = (sql: Queryable) => sql`and (d.id >> 38) <> (d.event_id >> 38)`;

const eventsAmong = (sql: Queryable, { from, to }: Ids) => sql`and e.id >= ${from} and e.id < ${to}`;

/** Deliveries of these events. */
const ofEvents = (sql: Queryable, { from, to, except }: IdRange) =>
  sql`and d.event_id >= ${from} and d.event_id < ${to} ${except.length === 0 ? sql`` : sql`and d.event_id <> all(${except}::bigint[])`}`;

/** Deliveries with ids of the days of these ids. */
const ofDays = (sql: Queryable, { from, to }: Ids) =>
  sql`and d.id >= ${firstIdOfDay(dayOfId(from))} and d.id < ${firstIdOfDay(dayOfId(Math.max(from, to - 1)) + 1)}`;

/** Returns the value that a filter requires; undefined if none does. */
const required = (property: string, filters: readonly Filter[]) =>
  filters.find((filter) => filter.property === property && filter.operator === 'is')?.value;

const requiredState = (filters: readonly Filter[]) => required('status', filters);
/** Whether the filters admit only deliveries whose events did not arrive: those that failed, and that no resend followed. */
const haveNotArrived = (filters: readonly Filter[]): boolean => required('not_arrived', filters) === '1';

/** Whether all ended deliveries that the filters admit have failed: only a 2xx response is a success. */
function haveFailed(filters: readonly Filter[]): boolean {
  const code = required('response_code', filters);
  return (
    haveNotArrived(filters) ||
    requiredState(filters) === 'failed' ||
    (typeof code === 'number' && Math.floor(code / 100) !== 2)
  );
}

/** The condition of the index of retried deliveries says the same as this filter. */
const isRetried = ({ property, operator, value }: Filter): boolean =>
  property === 'attempts' && operator === 'greaterthan' && value === 1;

/** The deliveries that are listed: of the events that a range of dates admits, and the filters that these do not imply. */
type Selected = { filters: readonly Filter[]; dated: DatedEvents | undefined };

async function select(sql: Queryable, source: Source, filters: readonly Filter[]): Promise<Selected> {
  const dated = await findEventsOfDates(sql, source, filters);
  return { filters: withTypeAndAction(dated?.others ?? filters), dated };
}

/**
 * Returns what to read for these filters. A condition without parameters chooses the index of failed or of retried deliveries. In an
 * order by date alone, deliveries of the day of their event are read by their ids.
 */
function partsFor(sql: Queryable, source: Source, { filters, dated }: Selected, order: readonly Order[] = []): Part[] {
  const state = requiredState(filters);
  const isMissing = haveNotArrived(filters);
  const failed = haveFailed(filters)
    ? sql`and d.state = 'failed' ${isMissing ? sql`and d.resent_as is null` : sql``}`
    : sql``;
  const retried = filters.some(isRetried) ? sql`and d.attempts > 1` : sql``;
  const narrowing = filters.filter((filter) => !isRetried(filter));
  const events = dated?.ids;
  const rest = { narrowing, ...(events && { events: eventsAmong(sql, events) }) };
  const chosen = events ? ofEvents(sql, events) : sql``;
  const isById = order.length === 1 && order[0]?.property === 'date_created' && filters.length === 0;
  const pending = (within: Fragment, more: Pick<Part, 'isById'> = {}): Part => {
    const part = pendingPart(sql, source, filters);
    return { ...part, ...more, within: sql`${part.within} ${chosen} ${within}` };
  };
  const ended = (within: Fragment, more: Pick<Part, 'isById'> = {}): Part =>
    endedPart(sql, source, sql`${failed} ${retried} ${chosen} ${within}`, { ...rest, ...more });
  const isDivided = isById || events !== undefined;
  const theirDay = events ? sql`${ofTheirDay(sql)} ${ofDays(sql, events)}` : ofTheirDay(sql);
  return [
    ...(state === 'successful' || isMissing
      ? []
      : isById
        ? [pending(ofTheirDay(sql), { isById }), pending(ofLaterDays(sql))]
        : [pending(sql``)]),
    ...(state === 'pending' ? [] : isDivided ? [ended(theirDay, { isById }), ended(ofLaterDays(sql))] : [ended(sql``)]),
  ];
}

/** No delivery is older than its event, so partitions before the oldest event are not read. */
function partsOfEvents(sql: Queryable, source: Source, ids: readonly number[], narrowing: readonly Filter[]): Part[] {
  const oldest = ids.reduce((least, id) => Math.min(least, id), Number.MAX_SAFE_INTEGER);
  const pending = pendingPart(sql, source, narrowing);
  const among = sql`and d.event_id = any(${ids}::bigint[])`;
  return [
    { ...pending, within: sql`${pending.within} ${among}` },
    endedPart(sql, source, sql`${among} and d.id >= ${firstIdOfDay(dayOfId(oldest))}`, { narrowing }),
  ];
}

/** Returns the ids of the webhook's deliveries of these events. */
export async function findDeliveriesOfEvents(sql: Queryable, owner: Owner, ids: readonly number[]): Promise<number[]> {
  const each = partsOfEvents(sql, oneWebhook(owner), ids, []).map(
    ({ table, within }) => sql`(select d.id from ${table} d where ${ownedBy(sql, owner)} ${within})`,
  );
  const rows = await sql<{ id: number }[]>`${each.reduce((before, one) => sql`${before} union all ${one}`)}`;
  return rows.map(({ id }) => id);
}

const NEWEST_FIRST = { property: 'id', descending: true };

type Page = { rows: DeliveryRow[]; total: number };

/** Returns a page of a webhook's deliveries, newest first by default, and their total. */
export async function listDeliveries(sql: Queryable, owner: Owner, listing: Listing): Promise<Page> {
  return listOf(sql, oneWebhook(owner), listing);
}

/** Returns a page of the deliveries of these webhooks of a store, newest first by default, and their total. */
export async function listDeliveriesOfStore(
  sql: Queryable,
  store: StoreKey,
  owners: readonly Owner[],
  listing: Listing,
): Promise<Page> {
  const ofWebhook = listing.filters.find(({ property, operator }) => property === 'webhook_id' && operator === 'is');
  const chosen = ofWebhook === undefined ? owners : owners.filter(({ id }) => id === ofWebhook.value);
  const filters = listing.filters.filter((filter) => filter !== ofWebhook);
  return chosen.length === 0
    ? { rows: [], total: 0 }
    : listOf(sql, allWebhooks(sql, chosen, store), { ...listing, filters });
}

async function listOf(sql: Queryable, source: Source, listing: Listing): Promise<Page> {
  const ofResource = await findEventsOfResource(sql, source, listing.filters);
  const selected = ofResource === undefined ? await select(sql, source, listing.filters) : undefined;
  const asked = { ...listing, filters: ofResource?.others ?? selected?.filters ?? [] };
  const read = (parts: readonly Part[], total: number) =>
    readPage(asked, NEWEST_FIRST, total, (page) => readDeliveries(sql, source, page, parts));
  if (selected === undefined) {
    const parts = partsOfEvents(sql, source, ofResource?.ids ?? [], asked.filters);
    const total = await countParts(sql, source, parts);
    return { total, rows: await read(parts, total) };
  }
  const { total, counts } = await countDeliveries(sql, source, selected);
  const start = counts && listing.order.length === 0 ? locate(counts, total, listing) : undefined;
  if (start === undefined) return { total, rows: await read(partsFor(sql, source, selected, listing.order), total) };
  const page = { ...asked, order: [NEWEST_FIRST], offset: start.offset };
  const located = endedPart(sql, source, sql`and d.id >= ${start.from} and d.id < ${start.before}`, {
    narrowing: asked.filters,
  });
  return { total, rows: await readDeliveries(sql, source, page, [located]) };
}

/** Returns the delivery with this id; undefined if the webhook has none or it has expired. */
export async function findDelivery(sql: Queryable, owner: Owner, id: number): Promise<DeliveryRow | undefined> {
  const source = oneWebhook(owner);
  const filters = [{ property: 'id', operator: 'is', value: id }] as const;
  const page = { offset: 0, limit: 1, order: [NEWEST_FIRST], filters };
  const [row] = await readDeliveries(sql, source, page, partsFor(sql, source, { filters, dated: undefined }));
  return row;
}

/**
 * Joins the event and the response only if a filter or an order needs them; otherwise only those of the shown page are read. With
 * 355,000 deliveries of one webhook (bench/lists.ts) the events of all were read for 1.4 s.
 */
const joinsFor = (sql: Queryable, source: Source, part: Part, order: readonly Order[] = []) => {
  const { narrowing, events, isEnded = false } = part;
  const event = needs(BY_EVENT, narrowing, order) ? sql`${withEvent(sql, source)} ${events ?? sql``}` : sql``;
  return needs(BY_RESPONSE, narrowing, order) ? sql`${withResponse(sql, source, isEnded)} ${event}` : event;
};

/** The most by which the order of the ids of a webhook's deliveries can differ from that of the dates of their events. */
const ID_DISORDER_MAX = 2 * EVENT_BLOCK;

/** The rows of a part, with the events that filters or the order need. */
function rowsOf(sql: Queryable, source: Source, part: Part, { order, offset, limit }: Listing) {
  const { table, within, narrowing, columns, isById } = part;
  const where = sql`where ${ownedBy(sql, source)} ${within} ${narrowed(sql, narrowing, columns)}`;
  if (isById !== true) return sql`${table} d ${joinsFor(sql, source, part, order)} ${where}`;
  const direction = order[0]?.descending === true ? sql`desc` : sql`asc`;
  const nearest = sql`select * from ${table} d ${where} order by d.id ${direction} ${atLeast(sql, offset + limit + ID_DISORDER_MAX)}`;
  return sql`(${nearest}) d ${joinsFor(sql, source, part, order)}`;
}

/** Each table is limited to the rows that the page can need before the union. */
async function readDeliveries(
  sql: Queryable,
  source: Source,
  listing: Listing,
  parts: readonly Part[],
): Promise<DeliveryRow[]> {
  if (parts.length === 0) return [];
  const { order, offset, limit } = listing;
  const ties = [sql`d.id`] as const;
  const isByResponse = needs(BY_RESPONSE, [], order);
  const limited = parts.map((part) => {
    const {
      status,
      date_next: dateNext,
      date_ended: dateEnded,
      response_code: code,
      resent_as: resentAs,
    } = part.columns;
    const response = isByResponse ? sql`, ${code} as response_code` : sql``;
    return sql`(${source.each(sql`
      select d.id, d.event_id, d.webhook_id, ${status} as status, d.attempts, ${dateNext} as date_next,
        ${dateEnded} as date_ended, ${resentAs} as resent_as ${response}
      from ${rowsOf(sql, source, part, listing)}
      order by ${ordered(sql, order, part.columns, ties)} ${atLeast(sql, offset + limit)}`)})`;
  });
  // Nothing is ordered by these.
  const merged = foundColumns(sql, { response_body: sql`null::text`, not_arrived: sql`null::text` });
  const sorted = sql`order by ${ordered(sql, order, merged, ties)}`;
  const event = needs(BY_EVENT, [], order) ? withEvent(sql, source) : sql``;
  return sql<DeliveryRow[]>`
    with found as (
      ${limited.reduce((before, part) => sql`${before} union all ${part}`)}
    ), page as (
      select d.* from found d ${event} ${sorted} ${paged(sql, { offset, limit })}
    )
    select d.id, d.webhook_id as "webhookId", d.event_id as "eventId", d.status, d.attempts, d.date_next as "dateNext", d.date_ended as "dateEnded",
      d.resent_as as "resentAs", e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated", a.outcome,
      a.response_code as "responseCode"
    from page d ${withShownEvent(sql, source)} ${withLastAttempt(sql, source)} ${sorted}`;
}

/** Without parts, as of what is pending and did not arrive, there is nothing to count. */
async function countParts(sql: Queryable, source: Source, parts: readonly Part[]): Promise<number> {
  const each = parts.map(
    (part) => sql`(
      select coalesce(sum(n), 0)::bigint from (${source.each(sql`
        select count(*) as n from ${part.table} d ${joinsFor(sql, source, part)}
        where ${ownedBy(sql, source)} ${part.within} ${narrowed(sql, part.narrowing, part.columns)}`)}) as counted)`,
  );
  return totalOf(await sql`select ${each.reduce((before, one) => sql`${before} + ${one}`, sql`0`)} as total`);
}

/**
 * Counts deliveries, and returns the counts of ended days by which a page of them is located. The deliveries that succeeded are
 * those that did not fail.
 */
async function countDeliveries(sql: Queryable, source: Source, selected: Selected): Promise<CountedList> {
  const { filters, dated } = selected;
  const isByState = filters.length === 1 && dated === undefined && requiredState(filters) === 'successful';
  if (dated !== undefined || (filters.length > 0 && !isByState)) return countByKind(sql, source, selected);
  const counts = await readDayCounts(sql, { shard: source.shard, ownerIds: source.webhookIds, list: 'delivery' });
  const open = endedPart(sql, source, sql`and d.id >= ${counts.openFrom}`);
  const count = (...parts: Part[]) => countParts(sql, source, parts);
  if (!isByState) return { counts, total: countedRows(counts) + (await count(pendingPart(sql, source), open)) };
  const failed = endedPart(sql, source, sql`and d.state = 'failed'`);
  return { total: countedRows(counts) + (await count(open)) - (await count(failed)) };
}

const ALL_EVENTS: IdRange = { from: 0, to: Number.MAX_SAFE_INTEGER, except: [] };

/** Counts the deliveries of some kinds of event, or of events of a range of dates, by the counts of ended days. */
async function countByKind(sql: Queryable, source: Source, selected: Selected): Promise<CountedList> {
  const { filters, dated } = selected;
  const list = { shard: source.shard, ownerIds: source.webhookIds, list: 'delivery' } as const;
  const counts = await readKindCounts(sql, list, filters, dated?.days);
  if (counts === undefined) return { total: await countParts(sql, source, partsFor(sql, source, selected)) };
  const events = dated?.ids ?? ALL_EVENTS;
  const later = endedPart(sql, source, sql`${ofLaterDays(sql)} ${ofEvents(sql, events)}`, {
    narrowing: filters,
    events: eventsAmong(sql, events),
  });
  const open = counts.uncounted.map((ids) => {
    const within = { ...events, from: Math.max(events.from, ids.from), to: Math.min(events.to, ids.to) };
    const theirDay = sql`${ofTheirDay(sql)} ${ofDays(sql, ids)} ${ofEvents(sql, within)}`;
    return endedPart(sql, source, theirDay, { narrowing: filters, events: eventsAmong(sql, within) });
  });
  const pending = pendingPart(sql, source, filters);
  const waiting = { ...pending, within: sql`${pending.within} ${ofEvents(sql, events)}` };
  const ofLater = await countParts(sql, source, [later]);
  const total = countedRows(counts) + ofLater + (await countParts(sql, source, [waiting, ...open]));
  // A page is located by counted days only if all other rows are newer: a range begins with a part of a day, and deliveries of
  // later days are between those that are counted.
  return dated === undefined && ofLater === 0 ? { total, counts } : { total };
}
