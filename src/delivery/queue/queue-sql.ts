/** The statements that read pending deliveries, their events and the settings of webhooks. */
import { type Fragment, type Queryable, oneOf } from '#db/pool.ts';
import type { EventRow } from '../delivery-sql.ts';
import type { Pending } from '../policy/entry.ts';
import { ownedUnder, type Fence } from '../record/record-sql.ts';
import type { Fetch } from './loaded-deliveries.ts';
import { SHARDS } from '#core/ids.ts';

// The statements by which deliveries of one resource wait for each other.

/**
 * Postpones deliveries of webhooks with an ordering that have to wait: another delivery of the resource, with a lower version, is pending in the same epoch.
 * Returns all deliveries of shards that are owned under these fencing tokens, each with its new due time if it waits: that of the
 * first pending one of the resource, or `recheckAt` if that is later.
 *
 * The first one is locked. So it either has ended before this statement reads it, or its end waits for this statement, and
 * `releaseNext` (record/record-sql.ts) then finds what was postponed.
 */
export async function postponeWaiting(
  sql: Queryable,
  worker: number,
  fences: readonly Fence[],
  due: readonly (Pending & { shard: number })[],
  recheckAt: Date,
): Promise<{ id: number; dueAt: Date | null }[]> {
  return sql<{ id: number; dueAt: Date | null }[]>`
    with ${ownedUnder(sql, worker, fences)}, due as materialized (
      select i.shard, i.id, i.epoch, o.webhook_id, o.resource_key, o.version
      from unnest(
        ${due.map(({ shard }) => shard)}::smallint[], ${due.map(({ id }) => id)}::bigint[], ${due.map(({ epoch }) => epoch)}::int[]
      ) as i (shard, id, epoch)
      join owned on owned.shard = i.shard
      left join lateral (
        select * from delivery_order o where o.shard = i.shard and o.delivery_id = i.id limit 1
      ) as o on true
    ), waiting as materialized (
      select i.id, e.due_at, p.place
      from due i
      cross join lateral (
        select d.due_at
        from delivery_order o
        cross join lateral (
          select d.due_at from delivery d
          where d.shard = o.shard and d.id = o.delivery_id and d.epoch = i.epoch
          limit 1 for share
        ) as d
        where o.shard = i.shard and o.webhook_id = i.webhook_id and o.resource_key = i.resource_key and o.version < i.version
        order by o.version
        limit 1
      ) as e
      cross join lateral (
        select d.ctid as place from delivery d where d.shard = i.shard and d.id = i.id limit 1 for update
      ) as p
    ), postponed as (
      update delivery d set due_at = greatest(w.due_at, ${recheckAt}) from waiting w where d.ctid = w.place
      returning d.id, d.due_at
    )
    select due.id, p.due_at as "dueAt" from due left join postponed p on p.id = due.id`;
}

/** Deletes rows of deliveries that have ended otherwise than by an attempt. */
export async function purgeOrder(sql: Queryable, limit: number): Promise<number> {
  const { count } = await sql`
    delete from delivery_order where ctid = any(array(
      select o.ctid from delivery_order o
      where not exists (select from delivery d where d.shard = o.shard and d.id = o.delivery_id)
      limit ${limit} for update of o skip locked
    ))`;
  return count;
}

// The statement that ends pending deliveries of older epochs in batches.

/** Selects deliveries of epochs before `epoch` among the first `limit` that are due at `from` or later. */
type OldEpochs = { webhookId: number; epoch: number; from: Date; limit: number };

/** Larger than any epoch. All deliveries of a deleted webhook are of an older epoch. */
const EPOCH_MAX = 2 ** 31 - 1;

/**
 * Ends a batch under the fencing token of the shard. Returns how many deliveries it ended and the last due time, from
 * which the next batch continues: index entries of deleted rows remain as long as an old transaction is open. Reads no rows
 * behind the first `limit`: a lane may have a million of the current epoch, and the epoch is in no index.
 */
export async function endOldEpochs(
  sql: Queryable,
  worker: number,
  { shard, fence }: { shard: number; fence: number },
  { webhookId, epoch, from, limit }: OldEpochs,
  now: Date,
): Promise<{ ended: number; dueAt: Date | null }> {
  const [row] = await sql<{ ended: number; dueAt: Date | null }[]>`
    with lease as materialized (
      select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share
    ), due as materialized (
      select ctid as row_id, due_at, epoch from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and due_at >= ${from} and due_at > '-infinity'
        and exists (select from lease)
      order by due_at, id
      limit ${limit}
    ), deleted as (
      delete from delivery where ctid = any(array(select row_id from due where epoch < ${Math.min(epoch, EPOCH_MAX)}))
      returning shard, id, store_id, webhook_id, event_id, attempts
    ), done as (
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      select shard, id, store_id, webhook_id, event_id, 'failed', attempts, ${now} from deleted
    ), removed_notes as (
      delete from delivery_suspect where ctid = any(array(
        select p.place from deleted
        cross join lateral (
          select s.ctid as place from delivery_suspect s where s.shard = deleted.shard and s.delivery_id = deleted.id limit 1
        ) as p
      ))
    )
    select (select count(*)::int from deleted) as ended, max(due_at) as "dueAt" from due`;
  return row ?? { ended: 0, dueAt: null };
}

// Counts an hour during which a webhook was unusable.

/** The position of a delivery in its lane. `dueAt` is PostgreSQL's text, because a `Date` truncates times to milliseconds. */
export type Position = { dueAt: string; id: number };

/** The first `limit` due deliveries after `after`. Deliveries with `most` faults are about to end and are not counted. */
type Hour = { webhookId: number; after: Position | null; faults: number; most: number; limit: number };

const BEGINNING: Position = { dueAt: '1970-01-01T00:00:00Z', id: 0 };

/** Adds the faults under the shard's fencing token. Returns the number of deliveries read, and the last of them. */
export async function countFaults(
  sql: Queryable,
  worker: number,
  { shard, fence }: { shard: number; fence: number },
  { webhookId, after, faults, most, limit }: Hour,
  now: Date,
): Promise<{ seen: number; last: Position | null }> {
  const { dueAt, id } = after ?? BEGINNING;
  const [last] = await sql<(Position & { seen: number })[]>`
    with lease as materialized (
      select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share
    ), due as materialized (
      select ctid as row_id, due_at, id, faults from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and (due_at, id) > (${dueAt}::timestamptz, ${id}::bigint)
        and due_at > '-infinity' and due_at <= ${now} and exists (select from lease)
      order by due_at, id
      limit ${limit}
    ), raised as (
      update delivery set faults = faults + ${faults} where ctid = any(array(select row_id from due where faults < ${most}))
    )
    select due_at::text as "dueAt", id, (select count(*)::int from due) as seen from due
    order by due_at desc, id desc limit 1`;
  return { seen: last?.seen ?? 0, last: last ?? null };
}

/**
 * The earliest pending delivery of a webhook. `dueAt` is null for a pull webhook, `hasSucceeded` if the last recorded
 * attempt succeeded.
 */
export type Head = { shard: number; webhookId: number; id: number; dueAt: Date | null; hasSucceeded: boolean };

/**
 * Returns the subquery of the earliest delivery of each of the first `limit` webhooks with pending deliveries of the shard `scan.shard`, after the webhook
 * `scan.after`, in order of their ids. A skip scan over the lane index, so that the cost depends on the webhooks with work and not on the
 * backlog. Deliveries of pull webhooks are due at infinity.
 */
function laneHeads(sql: Queryable, limit: number): Fragment {
  return sql`(
    with recursive lane as (
      (
        select d.shard, d.webhook_id, d.due_at, d.id from delivery d
        where d.shard = scan.shard and d.webhook_id > scan.after and d.due_at > '-infinity'
        order by d.webhook_id, d.due_at, d.id limit 1
      )
      union all
      select next.*
      from lane
      cross join lateral (
        select d.shard, d.webhook_id, d.due_at, d.id from delivery d
        where d.shard = lane.shard and d.webhook_id > lane.webhook_id and d.due_at > '-infinity'
        order by d.webhook_id, d.due_at, d.id limit 1
      ) as next
    )
    select * from lane limit ${limit}
  )`;
}

/** Returns, of each shard, the first `limit` webhooks after `after` that have pending deliveries. */
export async function discoverLanes(sql: Queryable, from: readonly { shard: number; after: number }[], limit: number) {
  return sql<Head[]>`
  select head.shard, head.webhook_id as "webhookId", head.id, nullif(head.due_at, 'infinity') as "dueAt",
    state.webhook_id is not null as "hasSucceeded"
  from unnest(${from.map(({ shard }) => shard)}::smallint[], ${from.map(({ after }) => after)}::bigint[])
    as scan (shard, after)
  cross join lateral ${laneHeads(sql, limit)} as head
  left join lateral (
    select t.webhook_id from webhook_state t
    where t.shard = head.shard and t.webhook_id = head.webhook_id and t.consecutive_failures = 0 limit 1
  ) as state on true`;
}

/**
 * Returns the earliest deliveries of some lanes, by shard and webhook, from a due time on, in order of due time; the first one
 * that is not due yet determines when to fetch again. Ordered by `due_at, id` and never by an id cursor: ids commit out
 * of order.
 */
export async function fetchLanes(sql: Queryable, shards: number[], webhookIds: number[], fetches: Fetch[]) {
  return sql<Pending[]>`
    select d.id, d.store_id as "storeId", d.webhook_id as "webhookId", d.epoch, d.event_id as "eventId", d.attempts, d.faults,
      d.due_at as "dueAt"
    from unnest(
      ${shards}::smallint[], ${webhookIds}::bigint[], ${fetches.map(({ limit }) => limit)}::int[],
      ${fetches.map(({ fromMs }) => new Date(fromMs))}::timestamptz[]
    ) as lane (shard, webhook_id, max_rows, due_from)
    cross join lateral (
      select * from delivery
      where shard = lane.shard and webhook_id = lane.webhook_id and due_at >= lane.due_from
        and due_at > '-infinity' and due_at < 'infinity'
      order by due_at, id
      limit lane.max_rows
    ) as d
    order by d.due_at, d.id`;
}

type EventOf = Omit<EventRow, 'id' | 'storeId'>;

/**
 * `body` is null if it is too long, was erased, or is in another row of the same result. Only with a body is the event known to exist:
 * retention may have deleted it.
 */
export type Arrival = Pending & { shard: number } & (
    | EventOf
    | ({ [Name in Exclude<keyof EventOf, 'body'>]: EventOf[Name] | null } & { body: null })
  );

/**
 * Returns deliveries by shard and id with their events. A body is returned once per event, and only up to `maxBytes`.
 */
export async function loadArrivals(sql: Queryable, shards: number[], ids: number[], maxBytes: number) {
  return sql<Arrival[]>`
  select d.shard, d.id, d.store_id as "storeId", d.webhook_id as "webhookId", d.epoch, d.event_id as "eventId", d.attempts,
    d.faults, d.due_at as "dueAt", e.resource_type as type, e.resource_id as "resourceId", e.action, e.version, e.nonce,
    e.base_url as "baseUrl", e.date_created as "dateCreated", e.trace_context as "traceContext",
    case
      when octet_length(e.body) between 1 and ${maxBytes}
        and row_number() over (partition by d.shard, d.event_id) = 1 then e.body
    end as body
  from unnest(${shards}::smallint[], ${ids}::bigint[]) as announced (shard, id)
  cross join lateral (
    select * from delivery d where d.shard = announced.shard and d.id = announced.id and d.due_at < 'infinity' limit 1
  ) as d
  left join lateral (
    select * from event e where e.shard = d.shard and e.store_id = d.store_id and e.id = d.event_id limit 1
  ) as e on true`;
}

/**
 * Returns webhooks of the shards with a pending disable. States of webhooks that were disabled since have an older epoch. A statement for
 * each shard made nine transactions a second of an idle worker with all 256.
 */
export async function listPendingDisables(sql: Queryable, shards: readonly number[], limit: number) {
  return sql<{ shard: number; webhookId: number }[]>`
  select t.shard, t.webhook_id as "webhookId"
  from webhook_state t
  join webhook w on w.shard = t.shard and w.id = t.webhook_id and w.epoch = t.epoch
  where t.shard = any (${shards}::smallint[]) and t.is_condemned and t.consecutive_failures > 0 and w.is_active
  limit ${limit}`;
}

/** The settings of a webhook as they were read. */
type ReadSettings = { webhookId: number; revision: number; storeDomain: string };

/** Returns the webhooks whose settings changed since, or that were deleted. */
export async function listChanged(sql: Queryable, shard: number, read: readonly ReadSettings[]): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select lane.id
    from unnest(
      ${read.map(({ webhookId }) => webhookId)}::bigint[], ${read.map(({ revision }) => revision)}::int[],
      ${read.map(({ storeDomain }) => storeDomain)}::text[]
    ) as lane (id, revision, domain)
    left join lateral (
      select w.revision, w.store_id from webhook w where w.shard = ${shard} and w.id = lane.id limit 1
    ) as w on true
    left join lateral (
      select s.domain from store s where s.shard = ${shard} and s.id = w.store_id limit 1
    ) as s on true
    where w.revision is distinct from lane.revision or coalesce(s.domain, '') is distinct from lane.domain`;
  return rows.map(({ id }) => id);
}

// What waits in a database, in bounded statements: a backlog has millions of deliveries.

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
