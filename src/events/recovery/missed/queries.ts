/** The statement that finds what a webhook has missed. */
import type { Queryable } from '#database/pool.ts';
import type { OpenRecovery } from '../queries.ts';

/** Ids from `from` on, before `to`. */
export type Span = { from: number; to: number };

/** When other recoveries of the same webhook have made deliveries; those that have not ended: until now. */
export const otherRecoveries = async (
  sql: Queryable,
  { shard, id, webhookId }: Pick<OpenRecovery, 'shard' | 'id' | 'webhookId'>,
): Promise<{ from: Date; to: Date | null }[]> => sql<{ from: Date; to: Date | null }[]>`
  select date_created as "from", date_ended as "to" from recovery
  where shard = ${shard} and webhook_id = ${webhookId} and id <> ${id} and events_recovered > 0`;

type Sought = {
  /** Events after `after`, up to `upTo` and with it. */
  after: number;
  upTo: number;
  /** At most so many. */
  limit: number;
  /** Where deliveries of these events may stand. */
  spans: readonly Span[];
};

/** `places`: as how many events are seen with each of `ids`. `last` is null where there are none at all. */
export type Missed = { seen: number; last: number | null; ids: number[]; places: number[] };

/**
 * Of the next events of the store those that the webhook is sent, that occurred at `since` or later and are not erased, and of
 * which it has neither a successful delivery nor one that is pending under its present epoch. What is committed while this
 * runs cannot come in between: event and delivery come with one transaction, and all three parts have one snapshot.
 *
 * It is a union that is counted, whose cost is the sum of its parts, because any join is a nested loop where the planner believes
 * a part to be empty. Deliveries are looked for by their webhook and the days of their ids: that of the event, on which a publish
 * makes its deliveries, and those of other recoveries. So the cost is that of the webhook's own deliveries on these days, and
 * neither of its history nor of other webhooks. 10,000 of 10⁵ events of a day on which 10⁵ deliveries of the webhook ended took
 * 100 to 450 ms on a busy machine. By their events, which the brin index of delivery_done has, the deliveries of 1,000 took 910 ms
 * alone: an array of ids reads the whole index once for each of them, and a range of ids reads whatever all stores have had
 * between two events of a quiet one.
 */
export const findMissed = async (
  sql: Queryable,
  { shard, storeId, webhookId, epoch, since, events }: OpenRecovery,
  { after, upTo, limit, spans }: Sought,
): Promise<Missed> => {
  const [row] = await sql<Missed[]>`
    with seen as materialized (
      select e.id, row_number() over (order by e.id) as place,
        e.date_created >= ${since} and octet_length(e.body) > 0
          and (e.resource_type || '/' || e.action) = any (${events}::text[]) as is_wanted
      from (
        select id, date_created, body, resource_type, action from event
        where shard = ${shard} and store_id = ${storeId} and id > ${after} and id <= ${upTo}
        order by id limit ${limit}
      ) as e
    ), told as (
      select id, place from seen where is_wanted
      union all
      select d.event_id, null from delivery d
      where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.epoch = ${epoch}
        and d.event_id > ${after} and d.event_id <= ${upTo}
      union all
      select d.event_id, null
      from unnest(${spans.map(({ from }) => from)}::bigint[], ${spans.map(({ to }) => to)}::bigint[]) as s (first, beyond)
      cross join lateral (
        select event_id from delivery_done
        where shard = ${shard} and webhook_id = ${webhookId} and id >= s.first and id < s.beyond and state = 'successful'
          and event_id > ${after} and event_id <= ${upTo}
        offset 0
      ) as d
    ), missed as materialized (
      select id, max(place) as place from told group by id having count(*) = count(place)
    )
    select (select count(*) from seen) as seen, (select max(id) from seen) as last,
      array(select id from missed order by id) as ids, array(select place from missed order by id) as places`;
  return row ?? { seen: 0, last: null, ids: [], places: [] };
};
