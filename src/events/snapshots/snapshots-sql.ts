/** The statements of the daily snapshots: of books that are due, of days that close, and of what a day amounts to. */
import type postgres from 'postgres';
import type { Queryable } from '#db/pool.ts';

type Fragment = postgres.Fragment;

/** A store whose snapshots are behind; `day` is the oldest that it has none of, `2026-11-21`. */
export type DueBook = { shard: number; storeId: number; day: string };

/** A day is told of so long after its midnight: whoever published just before it has long been written. */
const SETTLING = '10 minutes';

/** When a day can be over: the store's next midnight, or where its calendar has none, the first moment after it. */
const dueAfter = (sql: Queryable, day: Fragment) => sql`
  ((${day} + 1)::timestamp at time zone s.time_zone + ${SETTLING}::interval)`;

type Asked = { shards: readonly number[]; except: readonly number[]; now: Date; limit: number };

/** Books of these shards that are due, those that have waited longest first. An erased store's is left to housekeeping. */
export const dueBooks = async (sql: Queryable, { shards, except, now, limit }: Asked): Promise<DueBook[]> => sql<
  DueBook[]
>`
  select b.shard, b.store_id as "storeId", b.next_day::text as day
  from revenue_book b
  join store s on s.shard = b.shard and s.id = b.store_id
  where b.shard = any (${shards}::smallint[]) and b.due_at <= ${now}
    and b.store_id <> all (${except}::bigint[])
  order by b.due_at, b.shard, b.store_id
  limit ${limit}`;

/**
 * Ends the transaction where a publish that hangs holds the book, or many hold it one after the other: all other stores would
 * wait. The whole statement has the limit, because a lock time-out begins anew with each holder (twelve of 20 ms kept a close
 * waiting for 3.1 s with one of 2 s).
 */
export const limitStatements = async (sql: Queryable, limitMs: number): Promise<void> => {
  await sql`select set_config('statement_timeout', ${`${limitMs}ms`}, true)`;
};

/**
 * Closes a day, if it is over by the store's present calendar: then true, and whatever is published from now on belongs to a
 * later one. Waits for the publishes that hold the book, so that all terms of the day are there when it is closed. A day
 * that goes on, because the store has moved west, is looked at again when it is over.
 */
export const closeDay = async (sql: Queryable, { shard, storeId, day }: DueBook, now: Date): Promise<boolean> => {
  const rows = await sql<{ isOver: boolean }[]>`
    update revenue_book b set
      open_day = case when o.is_over then greatest(b.open_day, b.next_day + 1) else b.open_day end,
      due_at = case when o.is_over then b.due_at
        else greatest(${dueAfter(sql, sql`b.next_day`)}, ${now}::timestamptz + interval '1 minute') end
    from store s
    cross join lateral (
      select ((${now}::timestamptz - ${SETTLING}::interval) at time zone s.time_zone)::date > ${day}::date as is_over
    ) as o
    where b.shard = ${shard} and b.store_id = ${storeId} and b.next_day = ${day}
      and s.shard = b.shard and s.id = b.store_id
    returning o.is_over as "isOver"`;
  return rows[0]?.isOver === true;
};

/** The day that is open ends by the store's present calendar. */
export const moveDue = async (
  sql: Queryable,
  { shard, storeId }: Pick<DueBook, 'shard' | 'storeId'>,
): Promise<void> => {
  await sql`
    update revenue_book b set due_at = ${dueAfter(sql, sql`b.next_day`)}
    from store s
    where b.shard = ${shard} and b.store_id = ${storeId} and s.shard = b.shard and s.id = b.store_id`;
};

/** The subscription with which a chunk of so many terms ends; undefined where no more than that are left. */
export const endOfChunk = async (
  sql: Queryable,
  { shard, storeId }: DueBook,
  { after, termsMax }: { after: string; termsMax: number },
): Promise<string | undefined> => {
  const [row] = await sql<{ id: string }[]>`
    select subscription_id as id from subscription_term
    where shard = ${shard} and store_id = ${storeId} and subscription_id > ${after}
    order by subscription_id offset ${termsMax - 1} limit 1`;
  return row?.id;
};

/** What a currency amounts to on a day, and what came and went since the day before. Amounts are millionths, as text. */
export type Sums = {
  currency: string;
  mrr: string;
  activeCount: number;
  new: string;
  expansion: string;
  contraction: string;
  churn: string;
  reactivation: string;
};

/**
 * What the subscriptions after one, up to another (undefined: all that are left), amount to on a day.
 *
 * A term says what was known at the end of its day, until there is another: it is a span of days on which the subscription was
 * active in one currency. Of two spans of a subscription never both cover a day, so there is one amount a day or none. Of
 * 300,000 terms, 10,000 a chunk, no chunk took longer than 0.17 s on a busy machine, and all of them 3 to 5 s. Remembered sums of yesterday would spare nothing: who is new has to be asked anyway.
 */
export const sumChunk = async (
  sql: Queryable,
  { shard, storeId, day }: DueBook,
  { after, upTo }: { after: string; upTo: string | undefined },
): Promise<Sums[]> => {
  const amountOf = (amounts: Fragment) => sql`trunc(1000000 * coalesce(sum(${amounts}), 0))::text`;
  const come = sql`today is not null and yesterday is null`;
  return sql<Sums[]>`
    with term as (
      select t.subscription_id, t.currency, t.monthly, t.is_active,
        greatest(t.day, t.start_day) as first_day,
        least(lead(t.day) over (partition by t.subscription_id order by t.day), t.end_day) as gone_day
      from subscription_term t
      where t.shard = ${shard} and t.store_id = ${storeId} and t.day <= ${day}::date
        and t.subscription_id > ${after}
        ${upTo === undefined ? sql`` : sql`and t.subscription_id <= ${upTo}`}
    ), move as (
      select currency,
        sum(monthly) filter (where ${day}::date < gone_day or gone_day is null) as today,
        sum(monthly) filter (where first_day < ${day}::date and (${day}::date <= gone_day or gone_day is null)) as yesterday,
        bool_or(first_day < ${day}::date) as has_been
      from term
      where is_active and first_day <= ${day}::date and (first_day < gone_day or gone_day is null)
      group by subscription_id, currency
    )
    select currency, ${amountOf(sql`today`)} as mrr, count(today) as "activeCount",
      ${amountOf(sql`case when ${come} and not has_been then today end`)} as new,
      ${amountOf(sql`greatest(today - yesterday, 0)`)} as expansion,
      ${amountOf(sql`greatest(yesterday - today, 0)`)} as contraction,
      ${amountOf(sql`case when today is null then yesterday end`)} as churn,
      ${amountOf(sql`case when ${come} and has_been then today end`)} as reactivation
    from move
    where today is not null or yesterday is not null
    group by currency`;
};

/** Goes on to the next day; false where somebody else has told of this one. Holds the book until the transaction ends. */
export const advanceBook = async (sql: Queryable, { shard, storeId, day }: DueBook): Promise<boolean> => {
  const rows = await sql`
    update revenue_book b set next_day = b.next_day + 1, due_at = ${dueAfter(sql, sql`(b.next_day + 1)`)}
    from store s
    where b.shard = ${shard} and b.store_id = ${storeId} and b.next_day = ${day}
      and s.shard = b.shard and s.id = b.store_id
    returning 1`;
  return rows.length > 0;
};

/** Keeps which snapshot a day has. The primary key is the last word: a second one cannot be committed. */
export const keepDay = async (sql: Queryable, { shard, storeId, day }: DueBook, resourceId: number): Promise<void> => {
  await sql`
    insert into revenue_day (shard, store_id, day, resource_id) values (${shard}, ${storeId}, ${day}, ${resourceId})`;
};
