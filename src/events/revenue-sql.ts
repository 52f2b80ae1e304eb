/** SQL of the recurring revenue of stores: the books of their days, the terms of subscriptions, and snapshots. */
import type { Fragment, Queryable } from '#db/pool.ts';
import type { Term } from '#catalog/mrr.ts';
import type { RevenueAmount } from '#catalog/internal-types.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import { formatDate } from '#hypermedia/date.ts';

// The calendar days of stores. PostgreSQL reads no time zone: it lacks names that Node.js has, and takes CET for an offset.

/** A snapshot is made this long after midnight: by then all publishes that began before midnight are committed. */
const CLOSE_DELAY_MS = 10 * 60_000;

/** Returns the day in the time zone at that time, such as `2026-11-21`. */
export function dayAt(at: Date, timeZone: string): string {
  return formatDate(at, timeZone).slice(0, 10);
}

export function nextDay(day: string): string {
  return Temporal.PlainDate.from(day).add({ days: 1 }).toString();
}

/** Returns when a day ends in the time zone: the next midnight, or the first moment after it if the calendar has no such midnight. */
export function endOfDay(day: string, timeZone: string): Date {
  return new Date(Temporal.PlainDate.from(nextDay(day)).toZonedDateTime(timeZone).epochMilliseconds);
}

/** Returns when the snapshot of a day is due. */
function dueAfter(day: string, timeZone: string): Date {
  return new Date(endOfDay(day, timeZone).getTime() + CLOSE_DELAY_MS);
}

// Around a publish of subscriptions. All transactions lock rows in the same order.

/** Returns the stores for which Halcyon derives subscription events. */
export async function derivingStores(sql: Queryable, storeIds: readonly number[]): Promise<ReadonlySet<number>> {
  const rows = await sql<{ id: number }[]>`
    select s.id from unnest(${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[]) as a (shard, store_id)
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
export async function lockBooks(sql: Queryable, storeIds: readonly number[], now: Date): Promise<Book[]> {
  const books = await sql<(Omit<Book, 'day'> & { openDay: string })[]>`
  select s.id as "storeId", s.time_zone as "timeZone", b.open_day::text as "openDay",
    (b.next_day - 1)::text as "openingDay"
  from (select * from unnest(${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[]) as a (shard, store_id) order by 1, 2) as a
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

export type LastTerm = Term & { storeId: number; id: string; day: string };

/**
 * Returns the last term of each subscription, erased ones included. This is a separate statement after the versions are locked,
 * because a statement that waits for a lock keeps its old snapshot of other rows.
 */
export function lastTerms(sql: Queryable, keys: readonly Pick<LastTerm, 'storeId' | 'id'>[]): Promise<LastTerm[]> {
  return sql<LastTerm[]>`
  select a.store_id as "storeId", a.id, t.day::text as day, t.currency, trim_scale(t.monthly)::text as monthly,
    t.is_active as "isActive", t.start_day::text as "startDay", t.end_day::text as "endDay"
  from unnest(
    ${keys.map(({ storeId }) => shardOf(storeId))}::smallint[], ${keys.map(({ storeId }) => storeId)}::bigint[], ${keys.map(({ id }) => id)}::text[]
  ) as a (shard, store_id, id)
  cross join lateral (
    select * from subscription_term t
    where t.shard = a.shard and t.store_id = a.store_id and t.subscription_id = a.id
    order by t.day desc limit 1
  ) t`;
}

/** Sets the revenue of an erased subscription to zero from the day on, because no later version would. */
export async function endTerm(
  sql: Queryable,
  { shard, storeId, id }: StoreKey & { id: string },
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

// Daily snapshots: finding due books, closing days, and summing their terms.

/** A store with a due snapshot; `day` is the oldest day without one, such as `2026-11-21`. */
export type DueBook = StoreKey & { day: string; timeZone: string };

type DueQuery = { shards: readonly number[]; except: readonly number[]; now: Date; limit: number };

/**
 * Returns due books of these shards, those that have waited longest first, without those of erased stores, which a purge
 * deletes.
 */
export function dueBooks(sql: Queryable, { shards, except, now, limit }: DueQuery): Promise<DueBook[]> {
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
export async function lockBook(sql: Queryable, { shard, storeId }: StoreKey): Promise<DueBook | undefined> {
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
  { shard, storeId }: StoreKey,
  { after, termsMax }: { after: string; termsMax: number },
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select subscription_id as id from subscription_term
    where shard = ${shard} and store_id = ${storeId} and subscription_id > ${after}
    order by subscription_id offset ${termsMax - 1} limit 1`;
  return row?.id;
}

/** Sums of one currency on one day, and the changes since the day before. Amounts are millionths, as text. */
export type Sums = { currency: string; activeCount: number } & Record<RevenueAmount, string>;

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
