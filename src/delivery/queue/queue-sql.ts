/** The statements by which the queue reads pending deliveries, their events and the settings of webhooks. */
import type { Queryable } from '#db/pool.ts';
import type { EventRow } from '../attempt/event-sql.ts';
import type { Fetch } from './loaded-deliveries.ts';
import type { Pending } from '../policy/entry.ts';

/**
 * The earliest pending delivery of a webhook. `dueAt` is null for a pull webhook, `hasSucceeded` if the last recorded
 * attempt succeeded.
 */
export type Head = { shard: number; webhookId: number; id: number; dueAt: Date | null; hasSucceeded: boolean };

/**
 * Returns, of each shard, the first `limit` webhooks after `after` that have pending deliveries, in order of their ids.
 * A skip scan over the lane index per shard, so that the cost depends on the webhooks with work and not on the backlog.
 * Deliveries of pull webhooks are due at infinity.
 */
export async function discoverLanes(sql: Queryable, from: readonly { shard: number; after: number }[], limit: number) {
  return sql<Head[]>`
  select head.shard, head.webhook_id as "webhookId", head.id, nullif(head.due_at, 'infinity') as "dueAt",
    state.webhook_id is not null as "hasSucceeded"
  from unnest(${from.map(({ shard }) => shard)}::smallint[], ${from.map(({ after }) => after)}::bigint[])
    as scan (shard, after)
  cross join lateral (
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
  ) as head
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

/** `body` is null if it is too long, was erased, or is in another row of the same result. */
export type Arrival = Pending & Omit<EventRow, 'id' | 'storeId' | 'body'> & { shard: number; body: string | null };

/**
 * Returns deliveries by shard and id with their events. A body is returned once per event, and only up to `maxBytes`.
 */
export async function loadArrivals(sql: Queryable, shards: number[], ids: number[], maxBytes: number) {
  return sql<Arrival[]>`
  select d.shard, d.id, d.store_id as "storeId", d.webhook_id as "webhookId", d.epoch, d.event_id as "eventId", d.attempts,
    d.faults, d.due_at as "dueAt", e.resource_type as type, e.resource_id as "resourceId", e.action, e.version, e.nonce,
    e.base_url as "baseUrl", e.date_created as "dateCreated",
    case
      when octet_length(e.body) between 1 and ${maxBytes}
        and row_number() over (partition by d.shard, d.event_id) = 1 then e.body
    end as body
  from unnest(${shards}::smallint[], ${ids}::bigint[]) as announced (shard, id)
  cross join lateral (
    select * from delivery d where d.shard = announced.shard and d.id = announced.id and d.due_at < 'infinity' limit 1
  ) as d
  left join lateral (select * from event e where e.shard = d.shard and e.id = d.event_id limit 1) as e on true`;
}

/**
 * Returns webhooks of a shard with a pending disable. States of webhooks that were disabled since have an older epoch.
 */
export async function listPendingDisables(sql: Queryable, shard: number, limit: number) {
  return sql<{ webhookId: number; epoch: number }[]>`
  select t.webhook_id as "webhookId", t.epoch
  from webhook_state t
  join webhook w on w.shard = t.shard and w.id = t.webhook_id and w.epoch = t.epoch
  where t.shard = ${shard} and t.is_condemned and t.consecutive_failures > 0 and w.is_active
  limit ${limit}`;
}

/** The settings of webhooks of one shard as they were read, by column. */
export type ReadColumns = { webhookId: number[]; revision: number[]; storeDomain: string[] };

/** Returns the webhooks whose settings changed since, or that were deleted. */
export async function listChanged(sql: Queryable, shard: number, read: ReadColumns): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select lane.id
    from unnest(${read.webhookId}::bigint[], ${read.revision}::int[], ${read.storeDomain}::text[])
      as lane (id, revision, domain)
    left join lateral (
      select w.revision, w.store_id from webhook w where w.shard = ${shard} and w.id = lane.id limit 1
    ) as w on true
    left join lateral (
      select s.domain from store s where s.shard = ${shard} and s.id = w.store_id limit 1
    ) as s on true
    where w.revision is distinct from lane.revision or s.domain is distinct from lane.domain`;
  return rows.map(({ id }) => id);
}
