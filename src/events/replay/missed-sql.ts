/** SQL that finds the events that a webhook has missed. */
import { narrowed } from '#db/listing.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { textFilter } from '#hypermedia/filter.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';
import { REFEED } from './refeed-input.ts';
import type { OpenRecovery } from './recovery-sql.ts';

type MissedQuery = {
  /** The events after `after`, up to and including `upTo`; all of the same day. */
  after: number;
  upTo: number;
  /** Maximum number of events to read. */
  limit: number;
};

/**
 * `ids`: the missed events. `places`: for each of them, the number of events read up to it. `last` is null if no events were
 * read.
 */
export type Missed = { seen: number; last: number | null; ids: number[]; places: number[] };

/** Returns the condition that a column has a text with `*` for any text, as in a search; none for null. */
function isText(sql: Queryable, column: string, text: string | null): Fragment {
  if (text === null) return sql``;
  const filter = textFilter(column, text);
  if (filter === undefined) throw new Error(`A recovery is limited to a ${column} that is no filter`);
  return narrowed(sql, [filter], { [column]: sql`${sql(column)}` });
}

/**
 * Returns the condition that a missed event `m` has a failed delivery, whose last response is one that the recovery is limited to. It
 * reads the responses of missed events only: those of a day could have gigabytes.
 */
function hasFailed(sql: Queryable, { shard, webhookId, responseCode, responseBody }: OpenRecovery): Fragment {
  if (responseCode === null && responseBody === null) return sql`where cardinality(m.failed) > 0`;
  return sql`where exists (
    select from unnest(m.failed) as f (delivery_id)
    cross join lateral (
      select a.response_code, a.response_body from attempt_log a
      where a.shard = ${shard} and a.webhook_id = ${webhookId} and a.delivery_id = f.delivery_id and a.outcome is not null
      order by a.n desc limit 1
    ) as response
    where true ${responseCode === null ? sql`` : sql`and response_code = ${responseCode}`}
      ${isText(sql, 'response_body', responseBody)})`;
}

/**
 * Returns the next events that the webhook missed: it subscribes to them, they are within the limits of the recovery and not erased,
 * and they have neither a successful delivery to this webhook nor one that is pending under its current epoch. A refeed is sent to
 * selected webhooks only, so a refeed counts if the webhook has a delivery of it that failed or that belongs to an older epoch. Events
 * and deliveries are committed together and the statement has one snapshot, so a concurrent publish is either seen completely or not at
 * all.
 *
 * The query counts a union, whose cost is the sum of its parts; a join becomes a nested loop if the planner estimates that one
 * part is empty. Deliveries are found by webhook: those of the day of the event, on which publishes create theirs, and by an
 * index those of later days, which recoveries and resends create. The cost therefore depends on the deliveries of this webhook
 * on that day, not on its history or on other webhooks.
 *
 * 10,000 of 10⁵ events of a day with 10⁵ finished deliveries of the webhook took 100 to 450 ms on a busy machine. Finding
 * deliveries by event through the brin index of delivery_done took 910 ms for 1,000 events: an array of ids reads the whole
 * index once per id, and a range of ids reads all deliveries between two events of a quiet store.
 */
export async function findMissed(
  sql: Queryable,
  recovery: OpenRecovery,
  { after, upTo, limit }: MissedQuery,
): Promise<Missed> {
  const { shard, storeId, webhookId, epoch, since, until, resourceId, events } = recovery;
  const day = dayOfId(after + 1);
  const { onlyFailed, responseCode, responseBody } = recovery;
  const isOfFailed = onlyFailed || responseCode !== null || responseBody !== null;
  const ended = (more: Fragment) => sql`
    select event_id, null, state = 'successful', case when state = 'failed' then id end from delivery_done
    where shard = ${shard} and webhook_id = ${webhookId} and event_id > ${after} and event_id <= ${upTo} and ${more}`;
  const [row] = await sql<Missed[]>`
    with seen as materialized (
      select e.id, row_number() over (order by e.id) as place, e.action = ${REFEED} as is_refeed,
        e.date_created >= ${since} and (${until}::timestamptz is null or e.date_created < ${until})
          and octet_length(e.body) > 0
          and (e.resource_type || '/' || e.action) = any (${events}::text[]) ${isText(sql, 'resource_id', resourceId)} as is_wanted
      from (
        select id, date_created, body, resource_type, resource_id, action from event
        where shard = ${shard} and store_id = ${storeId} and id > ${after} and id <= ${upTo}
        order by id limit ${limit}
      ) as e
    ), candidate as (
      select id, place, case when not is_refeed then false end as has_it, null::bigint as failed from seen where is_wanted
      union all
      select d.event_id, null, d.epoch = ${epoch}, case when d.epoch < ${epoch} then d.id end from delivery d
      where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.due_at > '-infinity' and d.event_id > ${after} and d.event_id <= ${upTo}
      union all
      ${ended(sql`id >= ${firstIdOfDay(day)} and id < ${firstIdOfDay(day + 1)}`)}
      union all
      ${ended(sql`(id >> 38) <> (event_id >> 38)`)}
    ), missed as (
      select id, max(place) as place, ${isOfFailed ? sql`array_remove(array_agg(failed), null)` : sql`null::bigint[]`} as failed
      from candidate group by id having count(place) = 1 and not bool_or(has_it)
    ), chosen as materialized (
      select m.id, m.place from missed m ${isOfFailed ? hasFailed(sql, recovery) : sql``}
    )
    select (select count(*) from seen) as seen, (select max(id) from seen) as last,
      array(select id from chosen order by id) as ids, array(select place from chosen order by id) as places`;
  return row ?? { seen: 0, last: null, ids: [], places: [] };
}
