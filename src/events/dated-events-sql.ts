/** SQL that finds the ids of the events of a range of dates, from the index of a store's events alone. */
import { daysWithin, idsOfDays, narrowed, type DayRange } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Filter } from '#core/listing.ts';

/** More ids that are out of order than these are not listed: the dates are compared instead. */
const EXCEPT_MAX = 1_000;

/** Ids from `from` up to, but without, `to`, and without `except`. */
export type IdRange = { from: number; to: number; except: readonly number[] };

/** The events that filters on a date admit, and the filters that these ids do not imply. */
export type DatedEvents = { days: DayRange; ids: IdRange; others: readonly Filter[] };

type Store = { shard: number; storeId: number };

/**
 * The least and the greatest id of a day's events that the filters admit, and the ids that they do not: after the least one of the
 * first day of the range, and before the greatest one of its last day.
 */
async function findInDay(
  sql: Queryable,
  { shard, storeId }: Store,
  { day, isFirst, isLast }: { day: number; isFirst: boolean; isLast: boolean },
  dates: readonly Filter[],
): Promise<{ least: number | null; greatest: number | null; except: number[] }> {
  const { from, to } = idsOfDays({ first: day, last: day });
  const ofDay = sql`e.shard = ${shard} and e.store_id = ${storeId} and e.id >= ${from} and e.id < ${to}`;
  const isAdmitted = sql`(true ${narrowed(sql, dates, { date_created: sql`e.date_created` })})`;
  const [row] = await sql<{ least: number | null; greatest: number | null; except: number[] }[]>`
    with ends as materialized (
      select (select e.id from event e where ${ofDay} and ${isAdmitted} order by e.id limit 1) as least,
        (select e.id from event e where ${ofDay} and ${isAdmitted} order by e.id desc limit 1) as greatest
    )
    select least, greatest, array(
      select e.id from event e where ${ofDay} and not ${isAdmitted} ${isFirst ? sql`and e.id > least` : sql``}
        ${isLast ? sql`and e.id < greatest` : sql``} limit ${EXCEPT_MAX + 1}
    ) as except
    from ends`;
  return row ?? { least: null, greatest: null, except: [] };
}

/**
 * Returns the ids of the store's events that the filters on `date_created` admit; undefined without such a filter. Ids rise with the
 * dates, except for those of blocks that were used at the same time (`events/publish/publish-batch.ts`): the days at the ends of the range
 * are read. `ids` is exact unless `others` has the dates, too.
 */
export async function findEventsOfDates(
  sql: Queryable,
  store: Store,
  filters: readonly Filter[],
): Promise<DatedEvents | undefined> {
  const days = daysWithin(filters, 'date_created');
  if (days === undefined) return undefined;
  const dates = filters.filter(({ property }) => property === 'date_created');
  const { first, last, firstWhole, lastWhole } = days;
  const wide = { days, ids: { ...idsOfDays(days), except: [] }, others: filters };
  const ends = [...new Set([first, last])].filter((day) => day < firstWhole || day > lastWhole);
  // Only the first and the last day may have events that are not admitted; other operators exclude some of any day.
  if (firstWhole > first + 1 || lastWhole < last - 1) return wide;
  // The events of days before the first one are dropped, and deliveries of them that are left have no date.
  const [oldest] = await sql<{ id: number }[]>`
    select e.id from event e where e.shard = ${store.shard} and e.store_id = ${store.storeId} and e.id >= ${wide.ids.from}
    order by e.id limit 1`;
  const ids = { ...wide.ids, from: oldest?.id ?? wide.ids.to, except: [] as number[] };
  for (const day of ends) {
    const end = { day, isFirst: day === first, isLast: day === last };
    const { least, greatest, except } = await findInDay(sql, store, end, dates);
    ids.except.push(...except);
    if (end.isLast) ids.to = greatest === null ? idsOfDays({ first: day, last: day }).from : greatest + 1;
    if (end.isFirst) ids.from = least ?? Math.max(ids.from, idsOfDays({ first: day, last: day }).to);
  }
  if (ids.except.length > EXCEPT_MAX) return wide;
  return { days, ids, others: filters.filter((filter) => !dates.includes(filter)) };
}

/**
 * Returns the filters with those for one kind of event as a type and an action: PostgreSQL has statistics of both columns, and read
 * all events of the store to show 20 of a kind, because it expected half a percent of them to be of the kind `a || '/' || b`.
 */
export function withTypeAndAction(filters: readonly Filter[]): Filter[] {
  return filters.flatMap((filter) => {
    const { property, operator, value } = filter;
    if (property !== 'event' || operator !== 'is' || typeof value !== 'string') return [filter];
    const [type = '', action, ...more] = value.split('/');
    if (action === undefined || more.length > 0) return [filter];
    return [
      { property: 'resource_type', operator, value: type },
      { property: 'action', operator, value: action },
    ];
  });
}
