/** The statements around a publish of subscriptions: what is locked before it, in one order for everybody. */
import type { Term } from '#catalog/mrr.ts';
import type { Queryable } from '#db/pool.ts';

type Stores = { shard: number[]; storeId: number[] };

/** The stores whose subscription events Halcyon writes itself. */
export const derivingStores = async (sql: Queryable, { shard, storeId }: Stores): Promise<ReadonlySet<number>> => {
  const rows = await sql<{ id: number }[]>`
    select s.id from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id)
    cross join lateral (
      select s.id, s.subscription_events from store s where s.shard = a.shard and s.id = a.store_id limit 1
    ) as s
    where s.subscription_events = 'derived'`;
  return new Set(rows.map(({ id }) => id));
};

export type Book = {
  storeId: number;
  timeZone: string;
  /** The day that what is published now belongs to, `2026-11-21`: the store's, unless that one is closed. */
  day: string;
};

/** The books of stores, held open until the transaction ends. A store that is not among them has none yet, or is gone. */
export const holdBooks = async (sql: Queryable, { shard, storeId }: Stores, now: Date): Promise<Book[]> => sql<Book[]>`
  select s.id as "storeId", s.time_zone as "timeZone",
    greatest((${now}::timestamptz at time zone s.time_zone)::date, b.open_day)::text as day
  from (select * from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id) order by 1, 2) as a
  cross join lateral (select s.id, s.time_zone from store s where s.shard = a.shard and s.id = a.store_id limit 1) as s
  cross join lateral (
    select b.open_day from revenue_book b where b.shard = a.shard and b.store_id = a.store_id limit 1 for share
  ) as b`;

/** A first subscription opens the book of its store: the day that it comes in is the first that has a snapshot. */
export const openBooks = async (sql: Queryable, { shard, storeId }: Stores, now: Date): Promise<void> => {
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    select a.shard, s.id, o.day, o.day, (o.day + 1)::timestamp at time zone s.time_zone + interval '10 minutes'
    from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id)
    cross join lateral (select s.id, s.time_zone from store s where s.shard = a.shard and s.id = a.store_id limit 1) as s
    cross join lateral (select (${now}::timestamptz at time zone s.time_zone)::date as day) as o
    order by a.shard, s.id
    on conflict (shard, store_id) do nothing`;
};

type Keys = { shard: number[]; storeId: number[]; id: string[] };

export type LastTerm = Term & { storeId: number; id: string; day: string };

/**
 * The last terms of subscriptions, also of one that was erased. A statement of its own after the versions are locked: one that
 * waits for a lock still sees what else was there before it waited.
 */
export const lastTerms = async (sql: Queryable, asked: Keys): Promise<LastTerm[]> => sql<LastTerm[]>`
  select a.store_id as "storeId", a.id, t.day::text as day, t.currency, trim_scale(t.monthly)::text as monthly,
    t.is_active as "isActive", t.start_day::text as "startDay", t.end_day::text as "endDay"
  from unnest(${asked.shard}::smallint[], ${asked.storeId}::bigint[], ${asked.id}::text[]) as a (shard, store_id, id)
  cross join lateral (
    select * from subscription_term t
    where t.shard = a.shard and t.store_id = a.store_id and t.subscription_id = a.id
    order by t.day desc limit 1
  ) t`;

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
