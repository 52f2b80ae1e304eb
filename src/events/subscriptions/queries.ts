/** The statements around a publish of subscriptions: what is locked before it, in one order for everybody. */
import type { Queryable } from '#database/pool.ts';

export type Book = {
  storeId: number;
  subscriptionEvents: 'derived' | 'published';
  timeZone: string;
  /** The day that what is published now belongs to, `2026-11-21`: the store's, unless that one is closed. */
  day: string;
};

type Stores = { shard: number[]; storeId: number[] };

/** The books of stores, held open until the transaction ends. A store that is not among them has none yet, or is gone. */
export const holdBooks = async (sql: Queryable, { shard, storeId }: Stores, now: Date): Promise<Book[]> => sql<Book[]>`
  select s.id as "storeId", s.subscription_events as "subscriptionEvents", s.time_zone as "timeZone",
    greatest((${now}::timestamptz at time zone s.time_zone)::date, b.open_day)::text as day
  from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id)
  join store s on s.shard = a.shard and s.id = a.store_id
  join revenue_book b on b.shard = s.shard and b.store_id = s.id
  order by s.shard, s.id
  for share of b`;

/** A first subscription opens the book of its store: the day that it comes in is the first that has a snapshot. */
export const openBooks = async (sql: Queryable, { shard, storeId }: Stores, now: Date): Promise<void> => {
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    select s.shard, s.id, o.day, o.day, (o.day + 1)::timestamp at time zone s.time_zone + interval '10 minutes'
    from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id)
    join store s on s.shard = a.shard and s.id = a.store_id
    cross join lateral (select (${now}::timestamptz at time zone s.time_zone)::date as day) as o
    order by s.shard, s.id
    on conflict (shard, store_id) do nothing`;
};

export type Prior = {
  storeId: number;
  id: string;
  modifiedAt: Date;
  body: string;
  /** The last day that has a term of it; null where none has. */
  termDay: string | null;
};

/** The versions that are there, kept from other writers until the transaction ends; asked for in lock order. */
export const lockPriors = async (
  sql: Queryable,
  asked: { shard: number[]; storeId: number[]; id: string[] },
): Promise<Prior[]> => sql<Prior[]>`
  select r.store_id as "storeId", r.id, r.modified_at as "modifiedAt", r.body, (
      select max(t.day)::text from subscription_term t
      where t.shard = r.shard and t.store_id = r.store_id and t.subscription_id = r.id
    ) as "termDay"
  from unnest(${asked.shard}::smallint[], ${asked.storeId}::bigint[], ${asked.id}::text[])
    with ordinality as a (shard, store_id, id, n)
  join resource r on r.shard = a.shard and r.store_id = a.store_id and r.type = 'subscription' and r.id = a.id
  order by a.n
  for update of r`;

/** An erased subscription brings nothing from that day on: no version of it would ever say so. */
export const endTerm = async (
  sql: Queryable,
  { shard, storeId, id }: { shard: number; storeId: number; id: string },
  day: string,
): Promise<void> => {
  await sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    select shard, store_id, subscription_id, greatest(day, ${day}::date), currency, 0, false
    from subscription_term
    where shard = ${shard} and store_id = ${storeId} and subscription_id = ${id}
    order by day desc limit 1
    on conflict (shard, store_id, subscription_id, day) do update set monthly = 0, is_active = false`;
};
