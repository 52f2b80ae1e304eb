import type { ResourceType } from '#catalog/catalog.ts';
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import { EVENT_BLOCK } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { Listing } from '#core/listing.ts';
import type { EVENT_PROPERTIES } from './document.ts';

/** An event without what it carried. */
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

const shown = (sql: Queryable) => sql`
  e.id, e.resource_type as type, e.resource_id as "resourceId", e.action, e.version, e.time_zone as "timeZone",
  e.date_created as "dateCreated"`;

/** The time zones of stores; one that is gone has none. */
export const timeZonesOf = async (
  sql: Queryable,
  storeIds: readonly number[],
): Promise<ReadonlyMap<number, string>> => {
  const shards = [...new Set(storeIds.map(shardOf))];
  const rows = await sql<{ id: number; timeZone: string }[]>`
    select id, time_zone as "timeZone" from store
    where shard = any (${shards}::smallint[]) and id = any (${storeIds}::bigint[])`;
  return new Map(rows.map(({ id, timeZone }) => [id, timeZone]));
};

/** Events by their ids. */
export const findEvents = async (sql: Queryable, ids: readonly number[]): Promise<ReadonlyMap<number, ListedEvent>> => {
  if (ids.length === 0) return new Map();
  const shards = [...new Set(ids.map(shardOf))];
  const rows = await sql<ListedEvent[]>`
    select ${shown(sql)} from event e
    where e.shard = any (${shards}::smallint[]) and e.id = any (${ids}::bigint[])`;
  return new Map(rows.map((row) => [row.id, row]));
};

/** Undefined where the store has no such event, or is gone, though what it left behind is deleted little by little. */
export const findEvent = async (
  sql: Queryable,
  key: { shard: number; storeId: number; id: number },
): Promise<StoredEvent | undefined> => {
  const [row] = await sql<StoredEvent[]>`
    select ${shown(sql)}, e.base_url as "baseUrl", e.body
    from event e
    join store s on s.shard = e.shard and s.id = e.store_id
    where e.shard = ${key.shard} and e.id = ${key.id} and e.store_id = ${key.storeId}`;
  return row;
};

const columnsOf = (sql: Queryable): Columns<typeof EVENT_PROPERTIES> => ({
  id: sql`e.id`,
  event: sql`e.resource_type || '/' || e.action`,
  resource_type: sql`e.resource_type`,
  resource_id: sql`e.resource_id`,
  resource_version: sql`e.version`,
  date_created: sql`e.date_created`,
});

/**
 * Every writer takes numbers from a block of its own, so an id may be lower than one that is so many events older. Of the
 * newest by id so many more are read as two processes can be apart, and the newest of them by date are shown.
 */
const APART = 2 * EVENT_BLOCK;

/**
 * A page of events, newest first unless asked otherwise, and how many there are in all; undefined where there is no such
 * store. A store with 300,000 events: the newest 50 ms, those of one resource 110 ms.
 */
export const listEvents = async (
  sql: Queryable,
  store: { shard: number; storeId: number },
  wanted: Listing,
): Promise<{ rows: ListedEvent[]; total: number; timeZone: string } | undefined> => {
  const columns = columnsOf(sql);
  const where = sql`
    where e.shard = ${store.shard} and e.store_id = ${store.storeId}${narrowed(sql, wanted.filters, columns)}`;
  const isPlain = wanted.order.length === 0;
  const sorted = isPlain
    ? sql`order by e.date_created desc, e.id desc`
    : sql`order by ${ordered(sql, wanted.order, columns, [sql`e.id`])}`;
  const newest = isPlain ? sql`order by e.id desc limit ${wanted.offset + wanted.limit + APART}` : sql``;
  const rows = await sql<({ total: number; zone: string } & (ListedEvent | { id: null }))[]>`
    with near as not materialized (
      select e.id, e.resource_type, e.resource_id, e.action, e.version, e.time_zone, e.date_created
      from event e ${where} ${newest}
    ), page as (select * from near e ${sorted} ${paged(sql, wanted)})
    select (select count(*) from event e ${where}) as total, s.time_zone as zone, ${shown(sql)}
    from store s
    left join page e on true
    where s.shard = ${store.shard} and s.id = ${store.storeId}
    ${sorted}`;
  const [first] = rows;
  if (first === undefined) return undefined;
  return { rows: rows.flatMap((row) => (row.id === null ? [] : [row])), total: first.total, timeZone: first.zone };
};
