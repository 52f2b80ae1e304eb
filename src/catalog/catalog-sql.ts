/** The statements that read commerce resources; publishing writes them. */
import { paged } from '#db/listing.ts';
import { membersFor, narrowedOpenly, orderedOpenly } from '#db/open-listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Filter, Listing } from '#core/listing.ts';
import type { ResourceType } from './catalog.ts';

export type StoredResource = { version: number; baseUrl: string; body: string };

type Collection = { shard: number; storeId: number; type: ResourceType };
export type ResourceKey = Collection & { id: string };

const inCollection = (sql: Queryable, { shard, storeId, type }: Collection) =>
  sql`r.shard = ${shard} and r.store_id = ${storeId} and r.type = ${type}`;

/** What a store leaves behind when it is erased is gone at once, though its rows are deleted little by little. */
const ofStore = (sql: Queryable) => sql`join store s on s.shard = r.shard and s.id = r.store_id`;

/** The latest version of a resource; undefined where the store has no such one, or is gone. */
export const findResource = async (sql: Queryable, key: ResourceKey): Promise<StoredResource | undefined> => {
  const [row] = await sql<StoredResource[]>`
    select r.version, r.base_url as "baseUrl", r.body
    from resource r ${ofStore(sql)}
    where ${inCollection(sql, key)} and r.id = ${key.id}`;
  return row;
};

/** Of published JSON in one page: 58 MB of it kept a process from anything else for eight seconds, and took 1 GB. */
const PAGE_BYTES = 8 * 1024 * 1024;

/**
 * The bodies of a resource and those before it, the earliest first, and no more than `PAGE_BYTES` of them. Only of what has
 * one a day and ids that rise with the days: all of them are looked through, which took 16 ms for ten years on a busy machine.
 */
export const findUpTo = async (sql: Queryable, key: ResourceKey, limit: number): Promise<string[]> => {
  const rows = await sql<{ body: string }[]>`
    with latest as (
      select r.id, r.body from resource r
      where ${inCollection(sql, key)} and (length(r.id), r.id) <= (length(${key.id}::text), ${key.id}::text)
      order by length(r.id) desc, r.id desc
      limit ${limit}
    ), weighed as (
      select l.body, row_number() over latest_first as n, sum(octet_length(l.body)) over latest_first as bytes
      from latest l
      window latest_first as (order by length(l.id) desc, l.id desc)
    )
    select body from weighed where bytes <= ${PAGE_BYTES} order by n desc`;
  return rows.map(({ body }) => body);
};

/** `id:greaterthan=9` as people count: 10 is more, though the ids are texts. */
const idRange = (sql: Queryable, { operator, value }: Filter) => {
  const [id, bound] = [sql`(length(r.id), r.id)`, sql`(length(${String(value)}::text), ${String(value)}::text)`];
  return operator === 'greaterthan' ? sql` and ${id} > ${bound}` : sql` and ${id} < ${bound}`;
};

const isIdRange = ({ property, operator }: Filter): boolean =>
  property === 'id' && (operator === 'greaterthan' || operator === 'lessthan');

const whereOf = (sql: Queryable, collection: Collection, filters: readonly Filter[]) => {
  const columns = { id: sql`r.id`, date_modified: sql`r.modified_at` };
  const ranges = filters.filter(isIdRange).reduce((before, range) => sql`${before}${idRange(sql, range)}`, sql``);
  const others = filters.filter((filter) => !isIdRange(filter));
  return sql`${inCollection(sql, collection)}${ranges}${narrowedOpenly(sql, others, { object: sql`r.body::json`, columns })}`;
};

export type ListedResource = { id: string; baseUrl: string; body: string };

/**
 * A page of the latest versions and how many there are in all; undefined where there is no such store. Where they are more
 * than `PAGE_BYTES`, no body is read, and `fitting` is how many of them are not. `modified_at` is the publisher's date_modified, or when it was published, so nobody has to look for that in the JSON.
 *
 * What is narrowed or ordered is read once, for the page and for the total. The plain collection is not: its ids and its
 * total come out of the primary key alone, which a list of what was found would cost.
 *
 * One store with 100,000 transactions of 0.9 KiB, in PostgreSQL's processor time on a busy machine: the plain page 43 ms,
 * narrowed by date_modified 0.1 s, by a text 0.55 s, by a number 0.7 s, by another date 1.0 s; ordered by date_modified
 * 0.07 s, by a number or a text 0.6 s, by another date 1.0 s.
 */
export const listResources = async (
  sql: Queryable,
  collection: Collection,
  listing: Listing,
): Promise<{ rows: ListedResource[]; total: number } | { fitting: number } | undefined> => {
  const isPlain = listing.filters.length === 0 && listing.order.every(({ property }) => property === 'id');
  const sorted = { id: sql`o.id`, date_modified: sql`o.modified_at` };
  const total = isPlain ? sql`resource r where ${inCollection(sql, collection)}` : sql`found`;
  const rows = await sql<({ total: number; fits: boolean } & (ListedResource | { id: null }))[]>`
    with found as ${isPlain ? sql`not materialized` : sql`materialized`} (
      select r.id, r.modified_at, ${membersFor(sql, listing, sql`r.body::json`, sorted)} as members
      from resource r
      where ${whereOf(sql, collection, listing.filters)}
    ), page as (
      select o.id, row_number() over () as n
      from (
        select o.id from found o
        order by ${orderedOpenly(sql, listing, { members: sql`o.members`, columns: sorted }, [sql`length(o.id)`, sql`o.id`])}
        ${paged(sql, listing)}
      ) o
    ), weighed as (
      select p.n, r.id, r.base_url, r.body, sum(octet_length(r.body)) over (order by p.n) as bytes
      from page p join resource r on ${inCollection(sql, collection)} and r.id = p.id
    )
    select (select count(*) from ${total}) as total, w.id, w.base_url as "baseUrl", w.bytes <= ${PAGE_BYTES} as fits,
      case when (select max(bytes) from weighed) <= ${PAGE_BYTES} then w.body end as body
    from store s
    left join weighed w on true
    where s.shard = ${collection.shard} and s.id = ${collection.storeId}
    order by w.n`;
  const [first] = rows;
  if (first === undefined) return undefined;
  const fitting = rows.filter(({ fits }) => fits).length;
  if (first.id !== null && fitting < rows.length) return { fitting };
  return { rows: rows.flatMap((row) => (row.id === null ? [] : [row])), total: first.total };
};

export type ListedEmbedded = {
  baseUrl: string;
  /** What the resource says its currency is; null where it says nothing. */
  currency: string | null;
  /** JSON texts. */
  rows: string[];
  total: number;
};

/**
 * A page of what a publisher embedded under a relation, with or without a prefix in its name, one object or an array of
 * them, in the publisher's order; undefined where there is no such resource.
 */
export const listEmbedded = async (
  sql: Queryable,
  key: ResourceKey & { rel: string },
  listing: Listing,
): Promise<ListedEmbedded | undefined> => {
  const [row] = await sql<ListedEmbedded[]>`
    with owner as (
      select r.base_url, r.body::json as body from resource r ${ofStore(sql)}
      where ${inCollection(sql, key)} and r.id = ${key.id}
    ), embedded as (
      select e.value, json_typeof(e.value) as form
      from owner
      cross join lateral json_each(
        case json_typeof(owner.body -> '_embedded') when 'object' then owner.body -> '_embedded' else '{}' end
      ) with ordinality e (key, value, n)
      where e.key = ${key.rel} or right(e.key, length(${key.rel}::text) + 1) = ':' || ${key.rel}::text
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
};
