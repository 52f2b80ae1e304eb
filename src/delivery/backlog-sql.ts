/** What waits in a database, in bounded statements: a backlog has millions of deliveries. */
import { SHARDS } from '#core/ids.ts';
import { oneOf, type Queryable } from '#db/pool.ts';
import { laneHeads } from './queue/queue-sql.ts';

/** Up to this number the pending deliveries are counted; beyond it the number is that of PostgreSQL's statistics. */
const COUNTED_MAX = 10_000;
export type Backlog = {
  /** The number of pending deliveries. */
  pending: number;
  isEstimate: boolean;
  /** Webhooks with a due delivery that can be sent, and the time since when the first of them is due. */
  due: number;
  dueSince: Date | null;
  /** Webhooks whose due deliveries wait for their endpoint: a pause, the circuit breaker, retries, a limit of the webhook, a disconnected listener. */
  held: number;
  /** Webhooks that are disabled or deleted, and whose deliveries are not ended yet. */
  ended: number;
};

/**
 * Reads what waits in one database. `webhooksPerShard`: how many webhooks with work are read in each shard, in the order of their ids;
 * 20 take 120 ms on a busy machine where each shard has as many.
 */
export function readBacklog(sql: Queryable, now: Date, webhooksPerShard: number): Promise<Backlog> {
  return oneOf(sql<Backlog[]>`
    select case when c.counted < ${COUNTED_MAX} then c.counted
        else greatest(${COUNTED_MAX}::bigint, pg_stat_get_live_tuples('delivery'::regclass)) end::float8 as pending,
      c.counted = ${COUNTED_MAX} as "isEstimate", w.due, w."dueSince", w.held, w.ended
    from (select count(*) as counted from (select from delivery limit ${COUNTED_MAX}) as first) as c
    cross join (
      select count(*) filter (where not ended and not held) as due, min(due_at) filter (where not ended and not held) as "dueSince",
        count(*) filter (where held and not ended) as held, count(*) filter (where ended) as ended
      from (
        select head.due_at, w.id is null or not w.is_active or w.epoch <> d.epoch as ended,
          coalesce(w.is_held or w.rate_per_second is not null or s.paused_until > ${now} or s.probe_at > ${now}
            or s.consecutive_failures > 0, false) as held
        from (select n::smallint as shard, 0::bigint as after from generate_series(0, ${SHARDS - 1}::int) as n) as scan
        cross join lateral ${laneHeads(sql, webhooksPerShard)} as head
        cross join lateral (select epoch from delivery where shard = head.shard and id = head.id limit 1) as d
        left join lateral (select * from webhook where shard = head.shard and id = head.webhook_id limit 1) as w on true
        left join lateral (
          select * from webhook_state where shard = head.shard and webhook_id = head.webhook_id and epoch = d.epoch limit 1
        ) as s on true
        where head.due_at <= ${now} or w.is_held
      ) as one
    ) as w`);
}
