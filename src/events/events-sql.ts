import type { ResourceType } from '#catalog/catalog.ts';
import { countedRows, locate, readDayCounts, readKindCounts, type DayCounts } from '#db/day-counts.ts';
import { atLeast, narrowed, ordered, paged, readPage, totalOf, type Columns } from '#db/list-conditions.ts';
import { EVENT_BLOCK } from '#db/numbers.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { Filter, Listing } from '#core/listing.ts';
import { findEventsOfDates, withTypeAndAction, type DatedEvents, type IdRange } from './dated-events-sql.ts';
import type { EVENT_PROPERTIES } from './event-document.ts';
import { findEventsOfResource } from './resource-events-sql.ts';

/** An event without its payload. */
export type ListedEvent = {
  id: number;
  type: ResourceType;
  resourceId: string;
  action: string;
  version: number;
  timeZone: string;
  dateCreated: Date;
};
export type StoredEvent = ListedEvent & { baseUrl: string; body: string };

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
export async function findEvents(sql: Queryable, ids: readonly number[]): Promise<ReadonlyMap<number, ListedEvent>> {
  if (ids.length === 0) return new Map();
  const shards = [...new Set(ids.map(shardOf))];
  const rows = await sql<ListedEvent[]>`
    select ${selectedColumns(sql)} from event e
    where e.shard = any (${shards}::smallint[]) and e.id = any (${ids}::bigint[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Returns undefined if the store has no such event or was erased. The rows of an erased store are deleted later, in batches.
 */
export async function findEvent(
  sql: Queryable,
  key: { shard: number; storeId: number; id: number },
): Promise<StoredEvent | undefined> {
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

type Store = { shard: number; storeId: number };

/** The rows of one page, among those `within`. The ids of the page come first, because an index has ids and dates. */
async function readEvents(
  sql: Queryable,
  { shard, storeId }: Store,
  { filters, order, offset, limit }: Listing,
  within: Fragment,
): Promise<ListedEvent[]> {
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
  return sql<ListedEvent[]>`
    with page as (${near})
    select ${selectedColumns(sql)} from page join event e on e.shard = ${shard} and e.id = page.id ${orderBy}`;
}

const among = (sql: Queryable, { from, to }: { from: number; to: number }) => sql`and e.id >= ${from} and e.id < ${to}`;

function withinIds(sql: Queryable, ids: IdRange): Fragment {
  const { except } = ids;
  return except.length === 0 ? among(sql, ids) : sql`${among(sql, ids)} and e.id <> all(${except}::bigint[])`;
}

/** The events that are listed: `within` some ids, and the filters that these do not imply. `dated`: by a range of dates. */
type Selected = { within: Fragment; filters: readonly Filter[]; isOfResource: boolean; dated: DatedEvents | undefined };

async function select(sql: Queryable, store: Store, filters: readonly Filter[]): Promise<Selected> {
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
  { shard, storeId }: Store,
  { within, filters, isOfResource, dated }: Selected,
): Promise<{ total: number; counts?: DayCounts }> {
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

const WITHOUT_APPS: Filter = { property: 'resource_type', operator: 'not', value: 'app' };
/** More events about one app in one store than retention keeps. */
const ABOUT_APP_MAX = 5_000;

/** Returns the events about the app, by the chains of its changes of access: no index has the app of an event. */
async function findEventsAbout(sql: Queryable, { shard, storeId }: Store, clientId: string): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with recursive chain as (
      select coalesce(r.head_event_id, r.event_id) as id from resource r
      where r.shard = ${shard} and r.store_id = ${storeId} and r.type = 'app' and r.body::json ->> 'client_id' = ${clientId}
      union all
      select before.id from chain
      cross join lateral (
        select previous_id as id from event where shard = ${shard} and id = chain.id and previous_id is not null limit 1
      ) as before
    )
    select id from chain limit ${ABOUT_APP_MAX}`;
  return rows.map(({ id }) => id);
}

/** Counts the selected events; of those about apps only `own`, if an app reads them. */
async function countSeen(
  sql: Queryable,
  store: Store,
  selected: Selected,
  own: readonly number[] | undefined,
): ReturnType<typeof countEvents> {
  if (own === undefined) return countEvents(sql, store, selected);
  const others = await countEvents(sql, store, { ...selected, filters: [...selected.filters, WITHOUT_APPS] });
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
  store: Store,
  listing: Listing,
  app: string | null,
): Promise<{ rows: ListedEvent[]; total: number; timeZone: string } | undefined> {
  const [row] = await sql<{ timeZone: string }[]>`
    select time_zone as "timeZone" from store where shard = ${store.shard} and id = ${store.storeId}`;
  if (row === undefined) return undefined;
  const selected = await select(sql, store, listing.filters);
  const own = app === null ? undefined : await findEventsAbout(sql, store, app);
  const { total, counts } = await countSeen(sql, store, selected, own);
  const seen = own && sql`and (e.resource_type <> 'app' or e.id = any(${own}::bigint[]))`;
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
