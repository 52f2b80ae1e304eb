/** SQL around a publish of subscriptions. All transactions lock rows in the same order. */
import type { Term } from '#catalog/mrr.ts';
import { shardOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';
import { dayAt, dueAfter } from '../store-days.ts';

type Stores = { shard: number[]; storeId: number[] };

/** Returns the stores for which Halcyon derives subscription events. */
export async function derivingStores(sql: Queryable, { shard, storeId }: Stores): Promise<ReadonlySet<number>> {
  const rows = await sql<{ id: number }[]>`
    select s.id from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id)
    cross join lateral (
      select s.id, s.subscription_events from store s where s.shard = a.shard and s.id = a.store_id limit 1
    ) as s
    where s.subscription_events = 'derived'`;
  return new Set(rows.map(({ id }) => id));
}

export type Book = {
  storeId: number;
  timeZone: string;
  /**
   * The day that current publishes belong to, such as `2026-11-21`: today in the store's time zone, or a later day if that is
   * closed.
   */
  day: string;
  /** The day before that of the next snapshot. A first term of this day is in the balance of that snapshot, and no movement of it. */
  openingDay: string;
};

/**
 * Returns the revenue books of stores and share-locks them until the transaction ends, so that their days cannot be closed.
 * Stores without a book yet, and erased stores, are absent.
 */
export async function lockBooks(sql: Queryable, { shard, storeId }: Stores, now: Date): Promise<Book[]> {
  const books = await sql<(Omit<Book, 'day'> & { openDay: string })[]>`
  select s.id as "storeId", s.time_zone as "timeZone", b.open_day::text as "openDay",
    (b.next_day - 1)::text as "openingDay"
  from (select * from unnest(${shard}::smallint[], ${storeId}::bigint[]) as a (shard, store_id) order by 1, 2) as a
  cross join lateral (select s.id, s.time_zone from store s where s.shard = a.shard and s.id = a.store_id limit 1) as s
  cross join lateral (
    select b.open_day, b.next_day from revenue_book b where b.shard = a.shard and b.store_id = a.store_id limit 1 for share
  ) as b`;
  return books.map(({ storeId: id, timeZone, openingDay, openDay }) => {
    const today = dayAt(now, timeZone);
    return { storeId: id, timeZone, openingDay, day: today > openDay ? today : openDay };
  });
}

/**
 * Creates the revenue books of stores with these time zones. The day of the first subscription is the first with a snapshot.
 */
export async function openBooks(sql: Queryable, timeZones: ReadonlyMap<number, string>, now: Date): Promise<void> {
  const books = [...timeZones].map(([storeId, timeZone]) => {
    const day = dayAt(now, timeZone);
    return { storeId, day, dueAt: dueAfter(day, timeZone) };
  });
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    select shard, store_id, day, day, due_at
    from unnest(
      ${books.map(({ storeId }) => shardOf(storeId))}::smallint[], ${books.map(({ storeId }) => storeId)}::bigint[],
      ${books.map(({ day }) => day)}::date[], ${books.map(({ dueAt }) => dueAt)}::timestamptz[]
    ) as a (shard, store_id, day, due_at)
    order by shard, store_id
    on conflict (shard, store_id) do nothing`;
}

type SubscriptionKeys = { shard: number[]; storeId: number[]; id: string[] };

export type LastTerm = Term & { storeId: number; id: string; day: string };

/**
 * Returns the last term of each subscription, erased ones included. This is a separate statement after the versions are locked,
 * because a statement that waits for a lock keeps its old snapshot of other rows.
 */
export async function lastTerms(sql: Queryable, keys: SubscriptionKeys): Promise<LastTerm[]> {
  return sql<LastTerm[]>`
  select a.store_id as "storeId", a.id, t.day::text as day, t.currency, trim_scale(t.monthly)::text as monthly,
    t.is_active as "isActive", t.start_day::text as "startDay", t.end_day::text as "endDay"
  from unnest(${keys.shard}::smallint[], ${keys.storeId}::bigint[], ${keys.id}::text[]) as a (shard, store_id, id)
  cross join lateral (
    select * from subscription_term t
    where t.shard = a.shard and t.store_id = a.store_id and t.subscription_id = a.id
    order by t.day desc limit 1
  ) t`;
}

/** Sets the revenue of an erased subscription to zero from the day on, because no later version would. */
export async function endTerm(
  sql: Queryable,
  { shard, storeId, id }: { shard: number; storeId: number; id: string },
  day: string,
): Promise<void> {
  await sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    select shard, store_id, subscription_id, greatest(day, ${day}::date), currency, 0, false
    from subscription_term
    where shard = ${shard} and store_id = ${storeId} and subscription_id = ${id}
    order by day desc limit 1
    on conflict (shard, store_id, subscription_id, day) do update set monthly = 0, is_active = false`;
}
