/** The statements that read events. */
import { HIDDEN_FROM_APPS, resourceTypes } from '#catalog/catalog.ts';
import { countedRows, locate, readDayCounts, readKindCounts, type CountedList } from '#db/day-counts.ts';
import {
  atLeast,
  daysWithin,
  idsOfDays,
  narrowed,
  ordered,
  paged,
  readPage,
  totalOf,
  type Columns,
  type DayRange,
} from '#db/list-conditions.ts';
import { EVENT_BLOCK } from '#db/partitions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { firstIdOfDay, shardOf, type StoreKey } from '#core/ids.ts';
import type { Comparisons, Filter, Listing } from '#core/listing.ts';
import type { PublishedEvent } from './publish/publish.ts';

/** Id of sample resources whose ids publishers assign: unlikely in real data, and below 2^32. */
export const SAMPLE_ID = 999_999_999;

/** Properties of an event that lists can filter and order by, with the type of comparison. */
export const EVENT_PROPERTIES = {
  id: 'number',
  event: 'text',
  resource_type: 'text',
  resource_id: 'text',
  resource_version: 'number',
  date_created: 'date',
} as const satisfies Comparisons;

export type StoredEvent = PublishedEvent & { baseUrl: string; body: string };

/** Returns whether the store is a sandbox; undefined if it does not exist. */
export async function isSandbox(sql: Queryable, storeId: number): Promise<boolean | undefined> {
  const [row] = await sql<{ isSandbox: boolean }[]>`
    select sandbox_of is not null as "isSandbox" from store where shard = ${shardOf(storeId)} and id = ${storeId}`;
  return row?.isSandbox;
}

const selectedColumns = (sql: Queryable) => sql`
  e.id, e.resource_type as type, e.resource_id as "resourceId", e.action, e.version, e.time_zone as "timeZone",
  e.date_created as "dateCreated"`;

/** Returns the events that exist, by id. */
export async function findEvents(
  sql: Queryable,
  keys: readonly { storeId: number; id: number }[],
): Promise<ReadonlyMap<number, PublishedEvent>> {
  const rows = await sql<PublishedEvent[]>`
    select e.*
    from unnest(
      ${keys.map(({ storeId }) => shardOf(storeId))}::smallint[], ${keys.map(({ storeId }) => storeId)}::bigint[],
      ${keys.map(({ id }) => id)}::bigint[]
    ) as wanted (shard, store_id, id)
    cross join lateral (
      select ${selectedColumns(sql)} from event e
      where e.shard = wanted.shard and e.store_id = wanted.store_id and e.id = wanted.id
      limit 1
    ) as e`;
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Returns undefined if the store has no such event or was erased. The rows of an erased store are deleted later, in batches.
 */
export async function findEvent(sql: Queryable, key: StoreKey & { id: number }): Promise<StoredEvent | undefined> {
  const [row] = await sql<StoredEvent[]>`
    select ${selectedColumns(sql)}, e.base_url as "baseUrl", e.body
    from event e
    join store s on s.shard = e.shard and s.id = e.store_id
    where e.shard = ${key.shard} and e.id = ${key.id} and e.store_id = ${key.storeId}`;
  return row;
}

const filterColumns = (sql: Queryable): Columns<typeof EVENT_PROPERTIES> & { action: Fragment } => ({
  id: sql`e.id`,
  event: sql`e.resource_type || '/' || e.action`,
  resource_type: sql`e.resource_type`,
  action: sql`e.action`,
  resource_id: sql`e.resource_id`,
  resource_version: sql`e.version`,
  date_created: sql`e.date_created`,
});

/**
 * Event ids are allocated in blocks per process, so a newer event may have a lower id. The query reads this many rows beyond
 * the page in id order, the most by which two processes can differ, and then sorts by date.
 */
const ID_DISORDER_MAX = 2 * EVENT_BLOCK;
const NEWEST_FIRST = { property: 'date_created', descending: true };

/** The rows of one page, among those `within`. The ids of the page come first, because an index has ids and dates. */
async function readEvents(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { filters, order, offset, limit }: Listing,
  within: Fragment,
): Promise<PublishedEvent[]> {
  const columns = filterColumns(sql);
  const orderBy = sql`order by ${ordered(sql, order, columns, [sql`e.id`])}`;
  const [first, ...more] = order;
  const found = sql`
    from event e
    where e.shard = ${shard} and e.store_id = ${storeId} ${within} ${narrowed(sql, filters, columns)}`;
  const isByDate = first?.property === NEWEST_FIRST.property && more.length === 0;
  const direction = first?.descending === true ? sql`desc` : sql`asc`;
  const nearest = sql`order by e.id ${direction} ${atLeast(sql, offset + limit + ID_DISORDER_MAX)}`;
  const near = isByDate
    ? sql`select e.id from (select e.id, e.date_created ${found} ${nearest}) e ${orderBy} ${paged(sql, { offset, limit })}`
    : sql`select e.id ${found} ${orderBy} ${paged(sql, { offset, limit })}`;
  return sql<PublishedEvent[]>`
    with page as (${near})
    select ${selectedColumns(sql)} from page
    join event e on e.shard = ${shard} and e.store_id = ${storeId} and e.id = page.id ${orderBy}`;
}

const among = (sql: Queryable, { from, to }: { from: number; to: number }) => sql`and e.id >= ${from} and e.id < ${to}`;

function withinIds(sql: Queryable, ids: IdRange): Fragment {
  const { except } = ids;
  return except.length === 0 ? among(sql, ids) : sql`${among(sql, ids)} and e.id <> all(${except}::bigint[])`;
}

/** The events that are listed: `within` some ids, and the filters that these do not imply. `dated`: by a range of dates. */
type Selected = { within: Fragment; filters: readonly Filter[]; isOfResource: boolean; dated: DatedEvents | undefined };

async function select(sql: Queryable, store: StoreKey, filters: readonly Filter[]): Promise<Selected> {
  const ofResource = await findEventsOfResource(sql, store, filters);
  if (ofResource !== undefined) {
    const within = sql`and e.id = any(${ofResource.ids}::bigint[])`;
    return { within, filters: ofResource.others, isOfResource: true, dated: undefined };
  }
  const dated = await findEventsOfDates(sql, store, filters);
  const others = withTypeAndAction(dated?.others ?? filters);
  return { within: dated ? withinIds(sql, dated.ids) : sql``, filters: others, isOfResource: false, dated };
}

/** Returns how many events are selected, and the counts of ended days by which a page of them is located. */
async function countEvents(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { within, filters, isOfResource, dated }: Selected,
): Promise<CountedList> {
  const count = async (range: Fragment): Promise<number> =>
    totalOf(
      await sql`
      select count(*) as total from event e
      where e.shard = ${shard} and e.store_id = ${storeId} ${range} ${narrowed(sql, filters, filterColumns(sql))}`,
    );
  const list = { shard, ownerIds: [storeId], list: 'event' } as const;
  if (filters.length === 0 && !isOfResource && dated === undefined) {
    const counts = await readDayCounts(sql, list);
    return { counts, total: countedRows(counts) + (await count(sql`and e.id >= ${counts.openFrom}`)) };
  }
  const counts = isOfResource ? undefined : await readKindCounts(sql, list, filters, dated?.days);
  if (counts === undefined) return { total: await count(within) };
  let total = countedRows(counts);
  for (const ids of counts.uncounted) total += await count(sql`${within} ${among(sql, ids)}`);
  // A page is located by counted days only if all other rows are newer: a range begins with a part of a day.
  return dated === undefined ? { total, counts } : { total };
}

const WITHOUT_HIDDEN = HIDDEN_FROM_APPS.map((value): Filter => ({ property: 'resource_type', operator: 'not', value }));
/** More events about one app in one store than retention keeps. */
const ABOUT_APP_MAX = 5_000;

/** Returns the events about the app, by the chains of its changes of access: no index has the app of an event. */
async function findEventsAbout(sql: Queryable, { shard, storeId }: StoreKey, clientId: string): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with recursive chain as (
      select coalesce(r.head_event_id, r.event_id) as id from resource r
      where r.shard = ${shard} and r.store_id = ${storeId} and r.type = 'app' and r.body::json ->> 'client_id' = ${clientId}
      union all
      select before.id from chain
      cross join lateral (
        select previous_id as id from event
        where shard = ${shard} and store_id = ${storeId} and id = chain.id and previous_id is not null limit 1
      ) as before
    )
    select id from chain limit ${ABOUT_APP_MAX}`;
  return rows.map(({ id }) => id);
}

/** Counts the selected events; of those about apps only `own`, if an app reads them. */
async function countSeen(
  sql: Queryable,
  store: StoreKey,
  selected: Selected,
  own: readonly number[] | undefined,
): Promise<CountedList> {
  if (own === undefined) return countEvents(sql, store, selected);
  const others = await countEvents(sql, store, { ...selected, filters: [...selected.filters, ...WITHOUT_HIDDEN] });
  if (own.length === 0) return others;
  const within = sql`${selected.within} and e.id = any(${own}::bigint[])`;
  const about = await countEvents(sql, store, { ...selected, within, isOfResource: true });
  // By the other events alone a page would be located wrongly.
  return { total: others.total + about.total };
}

/**
 * Returns a page of events, newest first by default, and the total; undefined if the store does not exist. `app`: the `client_id` of the app
 * that reads, which sees no events about other apps; null for other readers.
 */
export async function listEvents(
  sql: Queryable,
  store: StoreKey,
  listing: Listing,
  app: string | null,
): Promise<{ rows: PublishedEvent[]; total: number; timeZone: string } | undefined> {
  const [row] = await sql<{ timeZone: string }[]>`
    select time_zone as "timeZone" from store where shard = ${store.shard} and id = ${store.storeId}`;
  if (row === undefined) return undefined;
  const selected = await select(sql, store, listing.filters);
  const own = app === null ? undefined : await findEventsAbout(sql, store, app);
  const { total, counts } = await countSeen(sql, store, selected, own);
  const seen = own && sql`and (e.resource_type <> all(${HIDDEN_FROM_APPS}::text[]) or e.id = any(${own}::bigint[]))`;
  const within = sql`${selected.within} ${seen ?? sql``}`;
  const asked = { ...listing, filters: selected.filters };
  const start = counts && listing.order.length === 0 ? locate(counts, total, listing) : undefined;
  const rows =
    start === undefined
      ? await readPage(asked, NEWEST_FIRST, total, (page) => readEvents(sql, store, page, within))
      : await readEvents(
          sql,
          store,
          { ...asked, order: [NEWEST_FIRST], offset: start.offset },
          sql`${within} and e.id >= ${start.from} and e.id < ${start.before}`,
        );
  return { rows, total, timeZone: row.timeZone };
}

// SQL that finds the events of one resource by their chain, without an index that every publish would have to write.

/** A resource with more events is searched like any other property: following a chain takes about 10 µs an event. */
const CHAIN_MAX = 5_000;
/** Samples and derived steps have ids that Halcyon allocates; both may have events in no chain. */
const FIRST_ALLOCATED_ID = firstIdOfDay(1);

const valueOf = (filters: readonly Filter[], name: string): string | undefined => {
  const values = filters.filter(({ property, operator }) => property === name && operator === 'is');
  return values.length === 1 && typeof values[0]?.value === 'string' ? values[0].value : undefined;
};

const isOfResource = ({ property, operator }: Filter): boolean =>
  operator === 'is' && (property === 'resource_id' || property === 'resource_type');

/** `ids`: events of the resource in the filters. `others`: filters that still have to be applied. */
export type ResourceEvents = { ids: readonly number[]; others: readonly Filter[] };

/**
 * Returns the events of the resource that the filters name by `resource_id`, with or without `resource_type`. Returns undefined if
 * they name none, or if a chain may lack some of its events: samples of test deliveries are in no chain, an erasure begins a new
 * one, and a resource that does not exist has none. Events whose successor has an id of an earlier day, because the clocks of
 * processes differ, are missing from the day on which retention drops the successor until they are dropped, too.
 */
export async function findEventsOfResource(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  filters: readonly Filter[],
): Promise<ResourceEvents | undefined> {
  const id = valueOf(filters, 'resource_id');
  if (id === undefined || id === String(SAMPLE_ID) || Number(id) >= FIRST_ALLOCATED_ID) return undefined;
  const type = valueOf(filters, 'resource_type');
  if (type === undefined && filters.some(({ property }) => property === 'resource_type')) return undefined;
  const types = type === undefined ? resourceTypes() : [type];
  const [row] = await sql<{ exists: boolean; wasErased: boolean; ids: number[] }[]>`
    with recursive head as materialized (
      select coalesce(head_event_id, event_id) as id from resource
      where shard = ${shard} and store_id = ${storeId} and type = any(${types}::text[]) and id = ${id}
    ), chain as (
      select e.id, e.previous_id from head
      cross join lateral (
        select id, previous_id from event where shard = ${shard} and store_id = ${storeId} and id = head.id limit 1
      ) as e
      union all
      select before.id, before.previous_id from chain
      cross join lateral (
        select id, previous_id from event where shard = ${shard} and store_id = ${storeId} and id = chain.previous_id limit 1
      ) as before
    )
    select exists(select from head) as "exists", exists(
        select from erased_resource
        where shard = ${shard} and store_id = ${storeId} and type = any(${types}::text[]) and id = ${id}
      ) as "wasErased", array(select id from chain limit ${CHAIN_MAX + 1}) as ids`;
  if (row === undefined || !row.exists || row.wasErased || row.ids.length > CHAIN_MAX) return undefined;
  return { ids: row.ids, others: filters.filter((filter) => !isOfResource(filter)) };
}

// SQL that finds the ids of the events of a range of dates, from the index of a store's events alone.

/** More ids that are out of order than these are not listed: the dates are compared instead. */
const EXCEPT_MAX = 1_000;

/** Ids from `from` up to, but without, `to`, and without `except`. */
export type IdRange = { from: number; to: number; except: readonly number[] };

/** The events that filters on a date admit, and the filters that these ids do not imply. */
export type DatedEvents = { days: DayRange; ids: IdRange; others: readonly Filter[] };

/**
 * The least and the greatest id of a day's events that the filters admit, and the ids that they do not: after the least one of the
 * first day of the range, and before the greatest one of its last day.
 */
async function findInDay(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { day, isFirst, isLast }: { day: number; isFirst: boolean; isLast: boolean },
  dates: readonly Filter[],
): Promise<{ least: number | null; greatest: number | null; except: number[] }> {
  const { from, to } = idsOfDays({ first: day, last: day });
  const ofDay = sql`e.shard = ${shard} and e.store_id = ${storeId} and e.id >= ${from} and e.id < ${to}`;
  const isAdmitted = sql`(true ${narrowed(sql, dates, { date_created: sql`e.date_created` })})`;
  const [row] = await sql<{ least: number | null; greatest: number | null; except: number[] }[]>`
    with ends as materialized (
      select (select e.id from event e where ${ofDay} and ${isAdmitted} order by e.id limit 1) as least,
        (select e.id from event e where ${ofDay} and ${isAdmitted} order by e.id desc limit 1) as greatest
    )
    select least, greatest, array(
      select e.id from event e where ${ofDay} and not ${isAdmitted} ${isFirst ? sql`and e.id > least` : sql``}
        ${isLast ? sql`and e.id < greatest` : sql``} limit ${EXCEPT_MAX + 1}
    ) as except
    from ends`;
  return row ?? { least: null, greatest: null, except: [] };
}

/**
 * Returns the ids of the store's events that the filters on `date_created` admit; undefined without such a filter. Ids rise with the
 * dates, except for those of blocks that were used at the same time (`events/publish/publish-batch.ts`): the days at the ends of the range
 * are read. `ids` is exact unless `others` has the dates, too.
 */
export async function findEventsOfDates(
  sql: Queryable,
  store: StoreKey,
  filters: readonly Filter[],
): Promise<DatedEvents | undefined> {
  const days = daysWithin(filters, 'date_created');
  if (days === undefined) return undefined;
  const dates = filters.filter(({ property }) => property === 'date_created');
  const { first, last, firstWhole, lastWhole } = days;
  const wide = { days, ids: { ...idsOfDays(days), except: [] }, others: filters };
  const ends = [...new Set([first, last])].filter((day) => day < firstWhole || day > lastWhole);
  // Only the first and the last day may have events that are not admitted; other operators exclude some of any day.
  if (firstWhole > first + 1 || lastWhole < last - 1) return wide;
  // The events of days before the first one are dropped, and deliveries of them that are left have no date.
  const [oldest] = await sql<{ id: number }[]>`
    select e.id from event e where e.shard = ${store.shard} and e.store_id = ${store.storeId} and e.id >= ${wide.ids.from}
    order by e.id limit 1`;
  const ids = { ...wide.ids, from: oldest?.id ?? wide.ids.to, except: [] as number[] };
  for (const day of ends) {
    const end = { day, isFirst: day === first, isLast: day === last };
    const { least, greatest, except } = await findInDay(sql, store, end, dates);
    ids.except.push(...except);
    if (end.isLast) ids.to = greatest === null ? idsOfDays({ first: day, last: day }).from : greatest + 1;
    if (end.isFirst) ids.from = least ?? Math.max(ids.from, idsOfDays({ first: day, last: day }).to);
  }
  if (ids.except.length > EXCEPT_MAX) return wide;
  return { days, ids, others: filters.filter((filter) => !dates.includes(filter)) };
}

/**
 * Returns the filters with those for one kind of event as a type and an action: PostgreSQL has statistics of both columns, and read
 * all events of the store to show 20 of a kind, because it expected half a percent of them to be of the kind `a || '/' || b`.
 */
export function withTypeAndAction(filters: readonly Filter[]): Filter[] {
  return filters.flatMap((filter) => {
    const { property, operator, value } = filter;
    if (property !== 'event' || operator !== 'is' || typeof value !== 'string') return [filter];
    const [type = '', action, ...more] = value.split('/');
    if (action === undefined || more.length > 0) return [filter];
    return [
      { property: 'resource_type', operator, value: type },
      { property: 'action', operator, value: action },
    ];
  });
}
