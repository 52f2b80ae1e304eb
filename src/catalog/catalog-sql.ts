/** SQL that reads commerce resources; `events/publish/` writes them. */
import {
  ALL_DAYS,
  daysWithin,
  idsOfDays,
  ordered,
  paged,
  readPage,
  symbolOf,
  isNamed,
  membersFor,
  narrowedOpenly,
  orderedOpenly,
  spellingsOf,
} from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import {
  conditionsOf,
  isRange,
  type Condition,
  type Filter,
  type Listing,
  type Order,
  type Range,
} from '#core/listing.ts';
import type { ResourceType } from './catalog.ts';
import { internalProperties } from './internal-types.ts';
import { PARENT_CHARACTERS, PARENT_MEMBERS } from './resource-document.ts';

export type StoredResource = { version: number; baseUrl: string; body: string };

type Collection = { shard: number; storeId: number; type: ResourceType };
export type ResourceKey = Collection & { id: string };

const inCollection = (sql: Queryable, { shard, storeId, type }: Collection) =>
  sql`r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type}`;

/** The same for lists: the condition of the indexes of `resource` that only lists use. */
const inList = (sql: Queryable, collection: Collection) => sql`${inCollection(sql, collection)} and length(r.type) > 0`;

/** Excludes rows of erased stores, which are deleted in the background. */
const ofStore = (sql: Queryable) => sql`join store s on s.shard = r.shard and s.id = r.store_id`;

/** Returns the latest version of a resource; undefined if it or its store does not exist, or if it is deleted. */
export async function findResource(sql: Queryable, key: ResourceKey): Promise<StoredResource | undefined> {
  const [row] = await sql<StoredResource[]>`
    select r.version, r.base_url as "baseUrl", r.body
    from resource r ${ofStore(sql)}
    where ${inCollection(sql, key)} and r.id = ${key.id} and r.date_deleted is null`;
  return row;
}

/** When a resource was deleted, and the time zone in which it is shown. */
export type Deletion = { dateDeleted: Date; timeZone: string };

/** Returns the deletion of a resource; undefined if it is not deleted, or if it or its store does not exist. */
export async function findDeletion(sql: Queryable, key: ResourceKey): Promise<Deletion | undefined> {
  const [row] = await sql<Deletion[]>`
    select r.date_deleted as "dateDeleted", r.time_zone as "timeZone"
    from resource r ${ofStore(sql)}
    where ${inCollection(sql, key)} and r.id = ${key.id} and r.date_deleted is not null`;
  return row;
}

/** Limit of published JSON per page: rendering 58 MB blocked a process for eight seconds and used 1 GB of memory. */
const PAGE_BYTES = 8 * 1024 * 1024;

/**
 * Returns the bodies of a resource and the ones before it, oldest first, up to `limit` rows and `PAGE_BYTES`. For resource
 * types with one resource per day and increasing ids only: it reads all of them, which took 16 ms for ten years on a busy
 * machine.
 */
export async function findUpTo(sql: Queryable, key: ResourceKey, limit: number): Promise<string[]> {
  const rows = await sql<{ body: string }[]>`
    with latest as (
      select r.id, r.body from resource r
      where ${inList(sql, key)} and (length(r.id), r.id) <= (length(${key.id}::text), ${key.id}::text)
      order by length(r.id) desc, r.id desc
      limit ${limit}
    ), sized as (
      select l.body, row_number() over latest_first as n, sum(octet_length(l.body)) over latest_first as bytes
      from latest l
      window latest_first as (order by length(l.id) desc, l.id desc)
    )
    select body from sized where bytes <= ${PAGE_BYTES} order by n desc`;
  return rows.map(({ body }) => body);
}

/** Compares ids by length first, so that the text 10 is greater than 9. */
const idRange = (sql: Queryable, range: Range, id: string) =>
  sql` and (length(r.id), r.id) ${symbolOf(sql, range)} (length(${id}::text), ${id}::text)`;

/** Conditions of the index `resource_parent`, for filters that are compared with the JSON, too. */
function ofParents(sql: Queryable, type: ResourceType, filters: readonly Filter[]) {
  return filters.reduce(
    (before, filter) => {
      if (filter.property !== PARENT_MEMBERS[type]) return before;
      const ids: string[] = [];
      for (const { operator, value } of conditionsOf(filter)) {
        const isText = typeof value === 'string' || typeof value === 'number';
        if (operator !== 'is' || !isText) return before;
        ids.push(...spellingsOf(value).map((text) => Array.from(text).slice(0, PARENT_CHARACTERS).join('')));
      }
      return sql`${before} and r.parent_id = any(${ids}::text[])`;
    },
    sql``,
  );
}

const isIdRange = (filter: Filter): filter is Condition & { operator: Range } =>
  filter.property === 'id' && isRange(filter.operator);

/**
 * Halcyon makes resources of these types once, at the time of `modified_at` and with an id of that time: their order is that of dates,
 * and a date is a range of ids.
 */
const isDatedById = (type: ResourceType): boolean => internalProperties(type) !== undefined;

/** `onlyDeleted`: the list has the deleted resources, and not those that exist. */
type ListedCollection = Collection & { onlyDeleted?: true | undefined };

function whereOf(sql: Queryable, collection: ListedCollection, filters: readonly Filter[]) {
  const dated = isDatedById(collection.type) ? { date_created: sql`r.modified_at` } : {};
  const deleted = collection.onlyDeleted === true ? { date_deleted: sql`r.date_deleted` } : {};
  const columns = { id: sql`r.id`, date_modified: sql`r.modified_at`, ...dated, ...deleted };
  const ranges = filters
    .filter(isIdRange)
    .reduce((before, { operator, value }) => sql`${before}${idRange(sql, operator, String(value))}`, sql``);
  const others = filters.filter((filter) => !isIdRange(filter));
  const shown = sql` and r.date_deleted is ${collection.onlyDeleted === true ? sql`not null` : sql`null`}`;
  const chosen = sql`${inList(sql, collection)}${shown}${ranges}${ofParents(sql, collection.type, filters)}`;
  return sql`${chosen}${narrowedOpenly(sql, others, { object: sql`r.body::json`, columns })}`;
}

export type ListedResource = {
  id: string;
  baseUrl: string;
  body: string;
  dateDeleted: Date | null;
  timeZone: string;
};

/** Returns the order of a list; changelogs are listed newest first. */
function orderOf(type: ResourceType, order: readonly Order[]): readonly Order[] {
  if (order.length === 0) return [{ property: 'id', descending: type === 'changelog' }];
  if (!isDatedById(type)) return order;
  return order.map((term) => (term.property === 'date_created' ? { ...term, property: 'id' } : term));
}

/** Conditions of the index `resource_modified`, for filters on the date of modification that are also compared exactly. */
function modifiedOnDays(sql: Queryable, filters: readonly Filter[]) {
  const days = daysWithin(filters, 'date_modified');
  if (days === undefined) return sql``;
  // A publisher may send dates outside the days that ids can express; at those ends there is no bound.
  const from = days.first > ALL_DAYS.first ? sql` and r.modified_day >= ${days.first}` : sql``;
  const to = days.last < ALL_DAYS.last ? sql` and r.modified_day <= ${days.last}` : sql``;
  return sql`${from}${to}`;
}

/** The ids of the days that filters on a date of creation admit. */
function idsOfDates(sql: Queryable, type: ResourceType, filters: readonly Filter[]) {
  const days = isDatedById(type) ? daysWithin(filters, 'date_created') : undefined;
  if (days === undefined) return sql``;
  const { from, to } = idsOfDays(days);
  return sql`${idRange(sql, 'greaterthanorequal', String(from))}${idRange(sql, 'lessthan', String(to))}`;
}

/** The total of a list and the ids of a page of it, in order. */
type Found = { total: number; ids: readonly string[] };

/**
 * Finds a page of an unfiltered list in the order of ids, by the index `resource_listed`, from the end that is nearer. The index has
 * no dates of deletion: only if some resources are deleted, the rows before the page are read, too.
 */
async function findListed(sql: Queryable, collection: Collection, listing: Listing): Promise<Found | undefined> {
  const [counted] = await sql<{ total: number; deleted: number }[]>`
    select (select count(*) from resource r where ${inList(sql, collection)}) - d.deleted as total, d.deleted
    from store s
    cross join lateral (
      select count(*) as deleted from resource r where ${inList(sql, collection)} and r.date_deleted is not null
    ) as d
    where s.shard = ${collection.shard} and s.id = ${collection.storeId}`;
  if (counted === undefined) return undefined;
  const { total } = counted;
  const existing = counted.deleted === 0 ? sql`` : sql`and r.date_deleted is null`;
  const rows = await readPage(listing, { property: 'id', descending: false }, total, ({ order, ...page }) => {
    const sorted = ordered(sql, order, { id: sql`r.id` }, [sql`length(r.id)`, sql`r.id`]);
    return sql<{ id: string }[]>`
      select r.id from resource r where ${inList(sql, collection)} ${existing} order by ${sorted} ${paged(sql, page)}`;
  });
  return { total, ids: rows.map(({ id }) => id) };
}

/**
 * Finds a page of a filtered or ordered list, which is materialized once, for the page and the total. `modified_at` is the
 * publisher's date_modified or the time of publishing, so filters on it need not parse the JSON.
 *
 * One store with 100,000 transactions of 0.9 KiB, in PostgreSQL's processor time on a busy machine: filtered by date_modified 0.1 s,
 * by a text 0.55 s, by a number 0.7 s, by another date 1.0 s; ordered by date_modified 0.07 s, by a number or a text 0.6 s, by another
 * date 1.0 s.
 */
async function findNarrowed(
  sql: Queryable,
  collection: ListedCollection,
  listing: Listing,
): Promise<Found | undefined> {
  const deleted = collection.onlyDeleted === true ? { date_deleted: sql`o.date_deleted` } : {};
  const sorted = { id: sql`o.id`, date_modified: sql`o.modified_at`, ...deleted };
  const [found] = await sql<{ total: number; ids: string[] }[]>`
    with found as materialized (
      select r.id, r.modified_at, r.date_deleted, ${membersFor(sql, listing, sql`r.body::json`, sorted)} as members
      from resource r
      where ${whereOf(sql, collection, listing.filters)}${idsOfDates(sql, collection.type, listing.filters)}
        ${modifiedOnDays(sql, listing.filters)}
    )
    select (select count(*) from found) as total, array(
      select o.id from found o
      order by ${orderedOpenly(sql, listing, { members: sql`o.members`, columns: sorted }, [sql`length(o.id)`, sql`o.id`])}
      ${paged(sql, listing)}
    ) as ids
    from store s where s.shard = ${collection.shard} and s.id = ${collection.storeId}`;
  return found;
}

/**
 * Returns a page of the latest versions and the total; undefined if the store does not exist. If the page exceeds `PAGE_BYTES`,
 * no body is read and `fitting` is the number of resources that would fit.
 */
export async function listResources(
  sql: Queryable,
  collection: ListedCollection,
  asked: Listing,
): Promise<{ rows: ListedResource[]; total: number } | { fitting: number } | undefined> {
  const listing = { ...asked, order: orderOf(collection.type, asked.order) };
  const isInOrderOfIds =
    listing.filters.length === 0 && listing.order[0]?.property === 'id' && collection.onlyDeleted !== true;
  const found = await (isInOrderOfIds ? findListed : findNarrowed)(sql, collection, listing);
  if (found === undefined) return undefined;
  const rows = await sql<(ListedResource & { fits: boolean })[]>`
    with sized as (
      select p.n, r.id, r.base_url, r.body, r.date_deleted, r.time_zone, sum(octet_length(r.body)) over (order by p.n) as bytes
      from unnest(${found.ids}::text[]) with ordinality as p (id, n)
      join resource r on ${inCollection(sql, collection)} and r.id = p.id
    )
    select w.id, w.base_url as "baseUrl", w.date_deleted as "dateDeleted", w.time_zone as "timeZone", w.bytes <= ${PAGE_BYTES} as fits,
      case when (select max(bytes) from sized) <= ${PAGE_BYTES} then w.body end as body
    from sized w order by w.n`;
  const fitting = rows.filter(({ fits }) => fits).length;
  return fitting < rows.length ? { fitting } : { rows, total: found.total };
}

export type ListedEmbedded = {
  baseUrl: string;
  /** Currency of the resource; null if it has none. */
  currency: string | null;
  /** JSON texts. */
  rows: string[];
  total: number;
};

/**
 * Returns a page of the objects embedded under a relation, with or without a prefix in its name, in the publisher's order;
 * undefined if the resource does not exist or is deleted. The publisher may embed one object or an array.
 */
export async function listEmbedded(
  sql: Queryable,
  key: ResourceKey & { rel: string },
  listing: Listing,
): Promise<ListedEmbedded | undefined> {
  const [row] = await sql<ListedEmbedded[]>`
    with owner as (
      select r.base_url, r.body::json as body from resource r ${ofStore(sql)}
      where ${inCollection(sql, key)} and r.id = ${key.id} and r.date_deleted is null
    ), embedded as (
      select e.value, json_typeof(e.value) as form
      from owner
      cross join lateral json_each(
        case json_typeof(owner.body -> '_embedded') when 'object' then owner.body -> '_embedded' else '{}' end
      ) with ordinality e (key, value, n)
      where ${isNamed(sql, sql`e.key`, key.rel)}
      order by e.n
      limit 1
    ), found as materialized (
      select e.n, e.value, ${membersFor(sql, listing, sql`e.value`, {})} as members
      from embedded
      cross join lateral json_array_elements(
        case form when 'array' then embedded.value when 'object' then json_build_array(embedded.value) else '[]' end
      ) with ordinality e (value, n)
      where json_typeof(e.value) = 'object'${narrowedOpenly(sql, listing.filters, { object: sql`e.value`, columns: {} })}
    ), page as (
      select o.value
      from found o
      order by ${orderedOpenly(sql, listing, { members: sql`o.members`, columns: {} }, [sql`o.n`])}
      ${paged(sql, listing)}
    )
    select owner.base_url as "baseUrl", owner.body ->> 'currency_code' as currency,
      array(select value::text from page) as rows, (select count(*) from found) as total
    from owner`;
  return row;
}

/** Returns the time zone of each store; erased stores are absent from the map. */
export async function timeZonesOf(sql: Queryable, storeIds: readonly number[]): Promise<ReadonlyMap<number, string>> {
  const shards = [...new Set(storeIds.map(shardOf))];
  const rows = await sql<{ id: number; timeZone: string }[]>`
    select id, time_zone as "timeZone" from store
    where shard = any (${shards}::smallint[]) and id = any (${storeIds}::bigint[])`;
  return new Map(rows.map(({ id, timeZone }) => [id, timeZone]));
}
