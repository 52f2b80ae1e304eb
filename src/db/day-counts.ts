/**
 * Counts of the rows of a list by day, and by day and kind of event, so that a list need not be counted for each page. A day of a shard is counted when it ended
 * two days ago and none of its deliveries is pending. No row of the day is added or deleted after that, unless the clock of a process
 * is days behind.
 */
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import { conditionsOf, type Filter, type Listing } from '#core/listing.ts';
import { LOCKS } from './advisory-lock.ts';
import { readDatabaseTime } from './database-clock.ts';
import { ALL_DAYS, idsOfDays, narrowed, type DayRange } from './list-conditions.ts';
import type { Queryable } from './pool.ts';

/** A list of rows whose ids contain their day. Attempts belong to the day of their delivery. */
export type DailyList = 'event' | 'delivery' | 'attempt';

/** The lists whose rows are in each partitioned table. */
const LISTS_OF: Readonly<Record<'event' | 'delivery_done' | 'attempt', readonly DailyList[]>> = {
  event: ['event'],
  delivery_done: ['delivery', 'attempt'],
  attempt: ['attempt'],
};

/** The first day that may be added to is yesterday: clocks differ, and a day's last batch commits on the next day. */
const OPEN_DAYS = 2;

export type DayCounts = {
  /** Rows with this id or a higher one are not counted yet. */
  openFrom: number;
  /** The counted days with rows, newest first. */
  days: readonly { day: number; rows: number }[];
};

/** The number of rows of a list, and the counts of ended days by which a page of it is located, unless it cannot be. */
export type CountedList = { total: number; counts?: DayCounts };

/** One row without a day if there are none. */
type CountedDay = { through: number | null } & ({ day: number; rows: number } | { day: null; rows: null });

/** Returns the counts of the list of a store, or of the lists of some webhooks together. */
export async function readDayCounts(
  sql: Queryable,
  { shard, ownerIds, list }: { shard: number; ownerIds: readonly number[]; list: DailyList },
): Promise<DayCounts> {
  const rows = await sql<CountedDay[]>`
    select counted.through, own.day, own.rows
    from (select max(day) as through from day_count where shard = ${shard} and owner_id = 0 and list = ${list}) as counted
    left join (
      select day, sum(rows)::float8 as rows from day_count
      where shard = ${shard} and owner_id = any(${ownerIds}::bigint[]) and list = ${list} group by day
    ) as own on true
    order by own.day desc`;
  return {
    openFrom: firstIdOfDay((rows[0]?.through ?? -1) + 1),
    days: rows.flatMap(({ day, rows: count }) => (day === null ? [] : [{ day, rows: count }])),
  };
}

/** Properties of the event of a row whose values are counted by kind. */
const KIND_PROPERTIES: ReadonlySet<string> = new Set(['event', 'resource_type', 'action']);

/** Deliveries are counted by `is` and `like` only, which no row without an event matches. */
const isOfKind = (filter: Filter, list: 'event' | 'delivery'): boolean =>
  conditionsOf(filter).every(
    ({ property, operator, value }) =>
      KIND_PROPERTIES.has(property) &&
      (operator === 'is' || operator === 'like' || (operator === 'not' && list === 'event')) &&
      value !== null,
  );

/** The counted rows that filters admit, and the ranges of ids of the days whose rows are not counted. */
export type KindCounts = DayCounts & { uncounted: readonly { from: number; to: number }[] };

/**
 * Returns the counts of the rows of a store's events, or of some webhooks' deliveries of the day of their event, that the filters admit.
 * Returns undefined if the filters use another property than the kind of the event and the days of `range`.
 */
export async function readKindCounts(
  sql: Queryable,
  { shard, ownerIds, list }: { shard: number; ownerIds: readonly number[]; list: 'event' | 'delivery' },
  filters: readonly Filter[],
  range: DayRange | undefined,
): Promise<KindCounts | undefined> {
  const ofKind = filters.filter((filter) => isOfKind(filter, list));
  const isDate = ({ property }: Filter): boolean => property === 'date_created' && range !== undefined;
  if (filters.some((filter) => !isOfKind(filter, list) && !isDate(filter))) return undefined;
  const [type, action] = [sql`split_part(c.kind, '/', 1)`, sql`split_part(c.kind, '/', 2)`];
  const columns = { event: sql`c.kind`, resource_type: type, action };
  const { first, last, firstWhole, lastWhole } = range ?? ALL_DAYS;
  const [marked] = await sql<{ through: number | null }[]>`
    select max(day) as through from day_kind_count where shard = ${shard} and owner_id = 0 and list = ${list}`;
  const through = Math.min(lastWhole, marked?.through ?? -1);
  const days = await sql<{ day: number; rows: number }[]>`
    select c.day, sum(c.rows)::float8 as rows from day_kind_count c
    where c.shard = ${shard} and c.owner_id = any(${ownerIds}::bigint[]) and c.list = ${list} and c.day >= ${firstWhole} and c.day <= ${through}
      ${narrowed(sql, ofKind, columns)}
    group by c.day order by c.day desc`;
  const others =
    through < firstWhole
      ? [{ first, last }]
      : [
          { first, last: firstWhole - 1 },
          { first: through + 1, last },
        ];
  const uncounted = others.map(idsOfDays).filter(({ from, to }) => from < to);
  return { openFrom: firstIdOfDay(through + 1), days, uncounted };
}

/** Returns the number of counted rows. */
export function countedRows({ days }: DayCounts): number {
  return days.reduce((sum, { rows }) => sum + rows, 0);
}

/** Where a page is: `offset` rows before the id `before`, and none of its rows has an id below `from`. */
export type PagePosition = { from: number; before: number; offset: number };

/**
 * Returns where a page of a list is whose newest rows come first. Returns undefined if the page begins with rows that are not counted
 * yet, or is nearer to the end of the list. Without `from` a page in the middle of 10 million deliveries to 100 webhooks took more than
 * 2 s, because so many older rows of each webhook were read as the page has newer ones.
 */
export function locate(
  counts: DayCounts,
  total: number,
  { offset, limit }: Pick<Listing, 'offset' | 'limit'>,
): PagePosition | undefined {
  let skipped = total - countedRows(counts);
  if (offset < skipped) return undefined;
  let found: Omit<PagePosition, 'from'> | undefined;
  for (const { day, rows } of counts.days) {
    if (found === undefined && offset < skipped + rows) {
      if (offset - skipped > total - offset) return undefined;
      found = { before: firstIdOfDay(day + 1), offset: offset - skipped };
    }
    skipped += rows;
    if (found !== undefined && offset + limit <= skipped) return { ...found, from: firstIdOfDay(day) };
  }
  return found && { ...found, from: 0 };
}

/** Deletes the counts of the lists whose rows of the day are dropped with a partition of `table`. */
export async function deleteDayCounts(sql: Queryable, table: keyof typeof LISTS_OF, day: number): Promise<void> {
  const lists = LISTS_OF[table];
  await sql`delete from day_count where day = ${day} and list = any(${lists}::text[])`;
  // Without its event, a delivery has no kind.
  const ofKind = table === 'event' ? ['event', 'delivery'] : lists;
  await sql`delete from day_kind_count where day = ${day} and list = any(${ofKind}::text[])`;
}

/**
 * Returns whether the day of the shard is counted now. It is not while one of its deliveries is pending, or while another process
 * counts.
 */
async function countDay(sql: Queryable, shard: number, day: number): Promise<boolean> {
  const [from, to] = [firstIdOfDay(day), firstIdOfDay(day + 1)];
  const { count } = await sql`
    with ended as materialized (
      select where not exists (select from delivery where shard = ${shard} and id >= ${from} and id < ${to})
        and pg_try_advisory_xact_lock(${LOCKS.dayCounts})
    ), counted as (
      select 'delivery' as list, webhook_id as owner_id, count(*) as rows from delivery_done
      where shard = ${shard} and id >= ${from} and id < ${to} group by webhook_id
      union all
      select 'attempt', webhook_id, count(*) from attempt_log
      where shard = ${shard} and delivery_id >= ${from} and delivery_id < ${to} and outcome is not null group by webhook_id
      union all
      select 'event', store_id, count(*) from event
      where shard = ${shard} and id >= ${from} and id < ${to} group by store_id
    ), listed as (
      select list, owner_id, rows from counted
      union all
      select list, 0, coalesce((select sum(rows) from counted c where c.list = l.list), 0)
      from unnest(array['delivery', 'attempt', 'event']) as l (list)
    ), by_day as (
      insert into day_count (shard, owner_id, list, day, rows)
      select ${shard}, owner_id, list, ${day}, rows from listed cross join ended
      on conflict do nothing
    ), of_kind as (
      select 'delivery' as list, d.webhook_id as owner_id, e.resource_type || '/' || e.action as kind, count(*) as rows
      from delivery_done d
      join event e on e.shard = d.shard and e.store_id = d.store_id and e.id = d.event_id and e.id >= ${from} and e.id < ${to}
      where d.shard = ${shard} and d.id >= ${from} and d.id < ${to} group by 2, 3
      union all
      select 'event', store_id, resource_type || '/' || action, count(*) from event
      where shard = ${shard} and id >= ${from} and id < ${to} group by 2, 3
      union all
      select list, 0, '', 0 from unnest(array['delivery', 'event']) as l (list)
    )
    insert into day_kind_count (shard, owner_id, list, day, kind, rows)
    select ${shard}, owner_id, list, ${day}, kind, rows from of_kind cross join ended
    on conflict do nothing`;
  return count > 0;
}

/**
 * Counts the days that have ended since, one day of a shard per statement, while `mayContinue` returns true. `first` is the first day
 * with partitions.
 */
export async function countDays(
  sql: Queryable,
  {
    shards,
    first,
    now,
    mayContinue,
  }: {
    shards: readonly number[];
    first: number;
    now: Date;
    mayContinue: () => boolean;
  },
): Promise<void> {
  const last = Math.min(dayOf(now), dayOf(await readDatabaseTime(sql))) - OPEN_DAYS;
  const rows = await sql<{ shard: number; through: number }[]>`
    select shard, max(day) as through from day_kind_count where owner_id = 0 and list = 'delivery' group by shard`;
  const counted = new Map(rows.map(({ shard, through }) => [shard, through]));
  // The rows of others are in another database, which counts them.
  const leases = await sql<{ shard: number }[]>`select shard from shard_lease`;
  const own = new Set(leases.map(({ shard }) => shard));
  for (const shard of shards.filter((one) => own.has(one))) {
    const next = (counted.get(shard) ?? -1) + 1;
    for (let day = Math.max(first, next); day <= last; day += 1) {
      if (!mayContinue()) return;
      // Later days wait for this one, so that one day separates counted rows from others.
      if (!(await countDay(sql, shard, day))) break;
    }
  }
}
