/** The read-only statements that list attempts. */
import { countedRows, readDayCounts, type DayCounts } from '#db/day-counts.ts';
import { atLeast, narrowed, ordered, paged, readPage, totalOf, type Columns } from '#db/list-conditions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { findEventsOfResource, withTypeAndAction } from '#events/events-sql.ts';
import type { Filter, Listing } from '#core/listing.ts';
import { findDeliveriesOfEvents } from './deliveries-sql.ts';
import type { LOG_PROPERTIES } from './history-documents.ts';
import {
  attemptSelection,
  eventColumns,
  needs,
  ownedBy,
  withEvent,
  withShownEvent,
  type AttemptRow,
  type Owner,
} from './history-sql.ts';

const BY_EVENT: ReadonlySet<string> = new Set(['resource_type', 'resource_id', 'action', 'event']);

const columnsOf = (sql: Queryable): Columns<typeof LOG_PROPERTIES> => ({
  id: sql`d.delivery_id || '-' || d.n`,
  webhook_id: sql`d.webhook_id`,
  attempt: sql`d.n`,
  response_code: sql`d.response_code`,
  duration: sql`d.duration_ms`,
  outcome: sql`d.outcome`,
  date_created: sql`d.date_started`,
  ...eventColumns(sql),
});

/** All attempts, by the index of the webhook's log. */
const inLog = (sql: Queryable) => sql`and d.date_started > '-infinity'`;

/** Returns a page of attempts, newest first by default, and their total. */
export async function listAttempts(
  sql: Queryable,
  owner: Owner,
  listing: Listing,
): Promise<{ rows: AttemptRow[]; total: number }> {
  const newestFirst = { property: 'date_created', descending: true };
  const ofResource = await findEventsOfResource(sql, owner, listing.filters);
  const asked = { ...listing, filters: withTypeAndAction(ofResource?.others ?? listing.filters) };
  // The log of the webhook has no index by event: the deliveries of the events have one by id.
  const deliveries = ofResource && (await findDeliveriesOfEvents(sql, owner, ofResource.ids));
  const within =
    deliveries === undefined
      ? inLog(sql)
      : sql`and d.outcome is not null and d.delivery_id = any(${deliveries}::bigint[])`;
  const counts =
    listing.filters.length === 0
      ? await readDayCounts(sql, { shard: owner.shard, ownerIds: [owner.id], list: 'attempt' })
      : undefined;
  const total = await countAttempts(sql, owner, asked.filters, within, counts);
  return { total, rows: await readPage(asked, newestFirst, total, (page) => readAttempts(sql, owner, page, within)) };
}

/** Joins the event only if a filter or an order needs it; otherwise only the events of the shown page are read. */
const eventFor = (sql: Queryable, owner: Owner, { filters, order }: Pick<Listing, 'filters' | 'order'>) =>
  needs(BY_EVENT, filters, order) ? withEvent(sql, owner) : sql``;

/** Selects the keys first, because responses have up to 16 KiB each. */
async function readAttempts(sql: Queryable, owner: Owner, listing: Listing, within: Fragment): Promise<AttemptRow[]> {
  const columns = columnsOf(sql);
  const sorted = sql`order by ${ordered(sql, listing.order, columns, [sql`d.delivery_id`, sql`d.n`])}`;
  return sql<AttemptRow[]>`
    with page as (
      select d.delivery_id, d.n from attempt_log d ${eventFor(sql, owner, listing)}
      where ${ownedBy(sql, owner)} ${within} ${narrowed(sql, listing.filters, columns)}
      ${sorted} ${atLeast(sql, listing.offset + listing.limit)}
    )
    select ${attemptSelection(sql)}
    from (select * from page ${paged(sql, listing)}) p
    join attempt_log d on ${ownedBy(sql, owner)} and d.delivery_id = p.delivery_id and d.n = p.n and d.outcome is not null
      ${withShownEvent(sql, owner)} ${sorted}`;
}

/** `counts`: those of the ended days, if the whole list is counted. */
async function countAttempts(
  sql: Queryable,
  owner: Owner,
  filters: readonly Filter[],
  within: Fragment,
  counts: DayCounts | undefined,
): Promise<number> {
  // Deliveries are counted by id, and attempts of the open days are found by the ids of their deliveries.
  const rows = counts === undefined ? within : sql`and d.outcome is not null and d.delivery_id >= ${counts.openFrom}`;
  const total = totalOf(
    await sql`
    select count(*) as total from attempt_log d ${eventFor(sql, owner, { filters, order: [] })}
    where ${ownedBy(sql, owner)} ${rows} ${narrowed(sql, filters, columnsOf(sql))}`,
  );
  return counts === undefined ? total : total + countedRows(counts);
}
