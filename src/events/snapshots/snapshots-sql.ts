/** SQL of the daily revenue snapshots: finding due books, closing days, and summing their terms. */
import type { Fragment, Queryable } from '#db/pool.ts';
import { CLOSE_DELAY_MS, dayAt, nextDay, dueAfter } from '../store-days.ts';

type StoreBook = { shard: number; storeId: number };
/** A store with a due snapshot; `day` is the oldest day without one, such as `2026-11-21`. */
export type DueBook = StoreBook & { day: string; timeZone: string };

type DueQuery = { shards: readonly number[]; except: readonly number[]; now: Date; limit: number };

/**
 * Returns due books of these shards, those that have waited longest first, without those of erased stores, which a purge
 * deletes.
 */
export async function dueBooks(sql: Queryable, { shards, except, now, limit }: DueQuery): Promise<DueBook[]> {
  return sql<DueBook[]>`
  select b.shard, b.store_id as "storeId", b.next_day::text as day, s.time_zone as "timeZone"
  from revenue_book b
  join store s on s.shard = b.shard and s.id = b.store_id
  where b.shard = any (${shards}::smallint[]) and b.due_at <= ${now}
    and b.store_id <> all (${except}::bigint[])
  order by b.due_at, b.shard, b.store_id
  limit ${limit}`;
}

/**
 * Limits the duration of each statement of the transaction, so that a publish that holds the lock of one book does not delay
 * all other stores. A lock timeout is not enough because it restarts with each lock holder: twelve holders of 20 ms delayed a
 * close by 3.1 s with a lock timeout of 2 s.
 */
export async function limitStatements(sql: Queryable, limitMs: number): Promise<void> {
  await sql`select set_config('statement_timeout', ${`${limitMs}ms`}, true)`;
}

/** SQL condition: the store is still in the time zone of the book, and the book at its day. */
const isUnchanged = (sql: Queryable, { shard, storeId, day, timeZone }: DueBook) => sql`
  b.shard = ${shard} and b.store_id = ${storeId} and b.next_day = ${day}
    and s.shard = b.shard and s.id = b.store_id and s.time_zone = ${timeZone}`;

/**
 * Closes a day if it is over, and returns true; later publishes belong to a later day. Waits for publishes that hold a share lock
 * on the book, so all terms of the day are committed. If the day is not over, because the store moved west, the due time is set
 * again. Returns false if the store moves at the same time.
 */
export async function closeDay(sql: Queryable, book: DueBook, now: Date): Promise<boolean> {
  const { day, timeZone } = book;
  const isOver = dayAt(new Date(now.getTime() - CLOSE_DELAY_MS), timeZone) > day;
  const change = isOver
    ? sql`open_day = greatest(b.open_day, b.next_day + 1)`
    : sql`due_at = greatest(${dueAfter(day, timeZone)}::timestamptz, ${now}::timestamptz + interval '1 minute')`;
  const rows = await sql`update revenue_book b set ${change} from store s where ${isUnchanged(sql, book)} returning 1`;
  return isOver && rows.length > 0;
}

/** Returns the book of a store at its open day, and locks it until the transaction ends; undefined if it has none. */
export async function lockBook(sql: Queryable, { shard, storeId }: StoreBook): Promise<DueBook | undefined> {
  const [book] = await sql<DueBook[]>`
    select b.shard, b.store_id as "storeId", b.next_day::text as day, s.time_zone as "timeZone"
    from revenue_book b join store s on s.shard = b.shard and s.id = b.store_id
    where b.shard = ${shard} and b.store_id = ${storeId}
    for update of b`;
  return book;
}

/** Sets the due time of the open day by the time zone of the book, which is locked. */
export async function updateDueTime(sql: Queryable, { shard, storeId, day, timeZone }: DueBook): Promise<void> {
  await sql`
    update revenue_book set due_at = ${dueAfter(day, timeZone)} where shard = ${shard} and store_id = ${storeId}`;
}

/** Returns the last subscription id of the next chunk of `termsMax` terms; undefined if fewer remain. */
export async function endOfChunk(
  sql: Queryable,
  { shard, storeId }: StoreBook,
  { after, termsMax }: { after: string; termsMax: number },
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select subscription_id as id from subscription_term
    where shard = ${shard} and store_id = ${storeId} and subscription_id > ${after}
    order by subscription_id offset ${termsMax - 1} limit 1`;
  return row?.id;
}

/** Sums of one currency on one day, and the changes since the day before. Amounts are millionths, as text. */
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
 * Returns the sums of the subscriptions after `after`, up to `upTo` (undefined: all that remain), on the day of the book.
 *
 * A term is valid from its day until the next term of the subscription: a span of days on which the subscription was active in
 * one currency. The spans of a subscription do not overlap, so there is at most one amount per day. With 300,000 terms in
 * chunks of 10,000, no chunk took longer than 0.17 s on a busy machine, and all of them 3 to 5 s. Storing the sums of yesterday
 * would save nothing, because new subscriptions have to be found anyway.
 */
export async function sumChunk(
  sql: Queryable,
  { shard, storeId, day }: DueBook,
  { after, upTo }: { after: string; upTo: string | undefined },
): Promise<Sums[]> {
  const amountOf = (amounts: Fragment) => sql`trunc(1000000 * coalesce(sum(${amounts}), 0))::text`;
  const appeared = sql`today is not null and yesterday is null`;
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
      ${amountOf(sql`case when ${appeared} and not has_been then today end`)} as new,
      ${amountOf(sql`greatest(today - yesterday, 0)`)} as expansion,
      ${amountOf(sql`greatest(yesterday - today, 0)`)} as contraction,
      ${amountOf(sql`case when today is null then yesterday end`)} as churn,
      ${amountOf(sql`case when ${appeared} and has_been then today end`)} as reactivation
    from move
    where today is not null or yesterday is not null
    group by currency`;
}

/**
 * Advances the book to the next day and locks it until the transaction ends. Returns false if another process has published
 * this day, or the store moves to another time zone at the same time.
 */
export async function advanceBook(sql: Queryable, book: DueBook): Promise<boolean> {
  const rows = await sql`
    update revenue_book b set next_day = b.next_day + 1, due_at = ${dueAfter(nextDay(book.day), book.timeZone)}
    from store s
    where ${isUnchanged(sql, book)}
    returning 1`;
  return rows.length > 0;
}

/** Records the snapshot of a day. The primary key guarantees that there is only one. */
export async function insertDay(sql: Queryable, { shard, storeId, day }: DueBook, resourceId: number): Promise<void> {
  await sql`
    insert into revenue_day (shard, store_id, day, resource_id) values (${shard}, ${storeId}, ${day}, ${resourceId})`;
}
