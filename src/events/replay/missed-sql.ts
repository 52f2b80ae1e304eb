/** SQL that finds the events that a webhook has missed. */
import type { Queryable } from '#db/pool.ts';
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

/**
 * Returns those of the next events that the webhook subscribes to, that occurred at `since` or later, are not erased, and have
 * neither a successful delivery to this webhook nor one that is pending under its current epoch. A refeed is sent to selected
 * webhooks only, so a refeed counts if the webhook has a delivery of it that failed or that belongs to an older epoch. Events
 * and deliveries are committed together and the statement has one snapshot, so a concurrent publish is either seen completely
 * or not at all.
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
  { shard, storeId, webhookId, epoch, since, events }: OpenRecovery,
  { after, upTo, limit }: MissedQuery,
): Promise<Missed> {
  const day = dayOfId(after + 1);
  const ended = (more: ReturnType<Queryable>) => sql`
    select event_id, null, state = 'successful' from delivery_done
    where shard = ${shard} and webhook_id = ${webhookId} and event_id > ${after} and event_id <= ${upTo} and ${more}`;
  const [row] = await sql<Missed[]>`
    with seen as materialized (
      select e.id, row_number() over (order by e.id) as place, e.action = ${REFEED} as is_refeed,
        e.date_created >= ${since} and octet_length(e.body) > 0
          and (e.resource_type || '/' || e.action) = any (${events}::text[]) as is_wanted
      from (
        select id, date_created, body, resource_type, action from event
        where shard = ${shard} and store_id = ${storeId} and id > ${after} and id <= ${upTo}
        order by id limit ${limit}
      ) as e
    ), candidate as (
      select id, place, case when not is_refeed then false end as has_it from seen where is_wanted
      union all
      select d.event_id, null, d.epoch = ${epoch} from delivery d
      where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.due_at > '-infinity' and d.event_id > ${after} and d.event_id <= ${upTo}
      union all
      ${ended(sql`id >= ${firstIdOfDay(day)} and id < ${firstIdOfDay(day + 1)}`)}
      union all
      ${ended(sql`(id >> 38) <> (event_id >> 38)`)}
    ), missed as materialized (
      select id, max(place) as place from candidate group by id having count(place) = 1 and not bool_or(has_it)
    )
    select (select count(*) from seen) as seen, (select max(id) from seen) as last,
      array(select id from missed order by id) as ids, array(select place from missed order by id) as places`;
  return row ?? { seen: 0, last: null, ids: [], places: [] };
}
