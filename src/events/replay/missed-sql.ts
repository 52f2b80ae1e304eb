/** The statement that finds what a webhook has missed. */
import type { Queryable } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';
import { REFEED } from './refeed-input.ts';
import type { OpenRecovery } from './recovery-sql.ts';

type Sought = {
  /** Events after `after`, up to `upTo` and with it: all of one day. */
  after: number;
  upTo: number;
  /** At most so many. */
  limit: number;
};

/** `places`: as how many events are seen with each of `ids`. `last` is null where there are none at all. */
export type Missed = { seen: number; last: number | null; ids: number[]; places: number[] };

/**
 * Of the next events of the store those that the webhook is sent, that occurred at `since` or later and are not erased, and of
 * which it has neither a successful delivery nor one that is pending under its present epoch. A refeed is meant for whom somebody
 * named and nobody else, so of these it is those of which the webhook has a delivery that failed, or died with a switch-off. What
 * is committed while this runs cannot come in between: event and delivery come with one transaction, and all parts have one snapshot.
 *
 * It is a union that is counted, whose cost is the sum of its parts, because any join is a nested loop where the planner believes
 * a part to be empty. Deliveries are looked for by their webhook: those of the day of the event, on which a publish makes its own,
 * and by an index those of any later day, which recoveries and people made. So the cost is that of the webhook's own deliveries on
 * the day, and neither of its history nor of other webhooks. 10,000 of 10⁵ events of a day on which 10⁵ deliveries of the webhook
 * ended took 100 to 450 ms on a busy machine. By their events, which the brin index of delivery_done has, the deliveries of 1,000
 * took 910 ms alone: an array of ids reads the whole index once for each of them, and a range of ids reads whatever all stores have
 * had between two events of a quiet one.
 */
export const findMissed = async (
  sql: Queryable,
  { shard, storeId, webhookId, epoch, since, events }: OpenRecovery,
  { after, upTo, limit }: Sought,
): Promise<Missed> => {
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
    ), told as (
      select id, place, case when not is_refeed then false end as has_it from seen where is_wanted
      union all
      select d.event_id, null, d.epoch = ${epoch} from delivery d
      where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.due_at > '-infinity' and d.event_id > ${after} and d.event_id <= ${upTo}
      union all
      ${ended(sql`id >= ${firstIdOfDay(day)} and id < ${firstIdOfDay(day + 1)}`)}
      union all
      ${ended(sql`(id >> 38) <> (event_id >> 38)`)}
    ), missed as materialized (
      select id, max(place) as place from told group by id having count(place) = 1 and not bool_or(has_it)
    )
    select (select count(*) from seen) as seen, (select max(id) from seen) as last,
      array(select id from missed order by id) as ids, array(select place from missed order by id) as places`;
  return row ?? { seen: 0, last: null, ids: [], places: [] };
};
