/**
 * SQL of pages of a store: counts of deliveries by state, whether something has happened, names of webhooks, and the look-ups by key of the
 * search.
 */
import { countedRows, readDayCounts } from '#db/day-counts.ts';
import type { Queryable } from '#db/pool.ts';
import { firstIdOfDay, type StoreKey } from '#core/ids.ts';
import { NOT_ARRIVED_COUNTED_MAX } from '#webhooks/health/figures.ts';
import { listNotArrived } from '#webhooks/health/health-sql.ts';
import type { ResourceType } from '#catalog/catalog.ts';

// SQL that reads whether something has happened in a store.

/** Attempts of older deliveries are rare, and would make the statement read the indexes of all days. */
const DAYS_BACK = 3;
/**
 * The attempts that are read of each webhook and table. An attempt that many later ones overtake is not seen, unless its delivery
 * ended.
 */
const ATTEMPTS_READ = 20;
const PENDING_READ_MAX = 1_000;

/**
 * Returns a text that changes with events of the store, with changes of its webhooks, with attempts that are among the latest to start of a
 * webhook, and with the number of pending deliveries; of deliveries that are at most three days old on the day `today`. Concurrent attempts are recorded in
 * another order than they started in, so the latest time alone would miss a timeout beside fast successes.
 */
export async function readActivity(sql: Queryable, { shard, storeId }: StoreKey, today: number): Promise<string> {
  const from = firstIdOfDay(Math.max(0, today - DAYS_BACK));
  const [row] = await sql<{ activity: string }[]>`
    select concat_ws('-',
      (select e.id from event e where e.shard = ${shard} and e.store_id = ${storeId} and e.id >= ${from} order by e.id desc limit 1),
      (
        select sum(latest.seen + waiting.seen + hashint8(extract(epoch from w.date_modified)::bigint)) from webhook w
        cross join lateral (
          select coalesce(sum(hashint8(a.id) + a.n::bigint), 0) as seen from (
            (
              select a.delivery_id as id, a.n, a.date_started from attempt a
              where a.shard = ${shard} and a.webhook_id = w.id and a.delivery_id >= ${from}
              order by a.date_started desc limit ${ATTEMPTS_READ}
            ) union all (
              select d.id, d.attempts, d.date_started from delivery_done d
              where d.shard = ${shard} and d.webhook_id = w.id and d.id >= ${from} and d.date_started > '-infinity'
              order by d.date_started desc limit ${ATTEMPTS_READ}
            )
          ) as a
        ) as latest
        cross join lateral (
          select count(*) as seen from (
            select from delivery d
            where d.shard = ${shard} and d.webhook_id = w.id and d.due_at > '-infinity' limit ${PENDING_READ_MAX}
          ) as d
        ) as waiting
        where w.shard = ${shard} and w.store_id = ${storeId}
      )) as activity`;
  return row?.activity ?? '';
}

// SQL that reads the names of webhooks which pages show in place of ids.

/** Returns the names of those of these webhooks that are in the store, by id. */
export async function findWebhookNames(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: number; name: string }[]>`
    select id, name from webhook where shard = ${shard} and id = any(${ids}::bigint[]) and store_id = ${storeId}`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Returns the names of the store's webhooks by id; a store has at most 100. */
export async function listWebhookNames(
  sql: Queryable,
  { shard, storeId }: StoreKey,
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: number; name: string }[]>`
    select id, name from webhook where shard = ${shard} and store_id = ${storeId} order by lower(name), id`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** A number of deliveries; `isMore`: there are at least `count`. */
export type Count = { count: number; isMore: boolean };
/** `delivered`: undefined if not all failed deliveries were counted. */
export type DeliveryCounts = Readonly<
  Record<'all' | 'queued' | 'retrying' | 'notArrived', Count> & { delivered: Count | undefined }
>;

/** A backlog of 900,000 deliveries would take 0.3 s to count, because the index does not have their attempts. */
const PENDING_MAX = 1_000;
/** Ended deliveries are counted in an index: 100,000 take 10 ms. Those of ended days are counted already. */
const ENDED_MAX = 100_000;
const ENDED_PER_WEBHOOK_MIN = 2_000;

type Row = Record<'queued' | 'retrying' | 'stale' | 'ended' | 'failed', number> &
  Record<'isMorePending' | 'isMoreEnded' | 'isMoreFailed', boolean>;

/**
 * Counts the deliveries of a store's webhooks, or of one: all, those without an attempt yet, those that wait for a retry, those whose
 * events did not arrive, and those that were delivered. At most `PENDING_MAX` pending ones of each webhook are read, and
 * of ended and of failed ones an equal part of `ENDED_MAX`, at least `ENDED_PER_WEBHOOK_MIN`. Pending deliveries of an older epoch have failed.
 */
export async function countTabs(
  sql: Queryable,
  { shard, storeId, webhookId }: StoreKey & { webhookId: number | undefined },
): Promise<DeliveryCounts> {
  const chosen = webhookId === undefined ? sql`` : sql`and w.id = ${webhookId}`;
  const webhooks = await sql<{ id: number }[]>`
    select w.id from webhook w where w.shard = ${shard} and w.store_id = ${storeId} ${chosen}`;
  const ownerIds = webhooks.map(({ id }) => id);
  const endedMax = Math.max(ENDED_PER_WEBHOOK_MIN, Math.floor(ENDED_MAX / Math.max(1, ownerIds.length)));
  const counts = await readDayCounts(sql, { shard, ownerIds, list: 'delivery' });
  const [row] = await sql<Row[]>`
    select coalesce(sum(p.queued), 0)::int as queued, coalesce(sum(p.retrying), 0)::int as retrying,
      coalesce(sum(p.stale), 0)::int as stale, coalesce(sum(e.ended), 0)::int as ended, coalesce(sum(f.failed), 0)::int as failed,
      coalesce(bool_or(p.seen = ${PENDING_MAX}), false) as "isMorePending",
      coalesce(bool_or(e.ended = ${endedMax}), false) as "isMoreEnded",
      coalesce(bool_or(f.failed = ${endedMax}), false) as "isMoreFailed"
    from webhook w
    cross join lateral (
      select count(*) filter (where attempts = 0 and epoch >= w.epoch) as queued,
        count(*) filter (where attempts > 0 and epoch >= w.epoch) as retrying,
        count(*) filter (where epoch < w.epoch) as stale, count(*) as seen
      from (
        select attempts, epoch from delivery
        where shard = ${shard} and webhook_id = w.id and due_at > '-infinity'
        order by due_at limit ${PENDING_MAX}
      ) as pending
    ) as p
    cross join lateral (
      select count(*) as ended from (
        select from delivery_done where shard = ${shard} and webhook_id = w.id and id >= ${counts.openFrom} limit ${endedMax}
      ) as open
    ) as e
    cross join lateral (
      select count(*) as failed from (
        select from delivery_done where shard = ${shard} and webhook_id = w.id and state = 'failed' limit ${endedMax}
      ) as failures
    ) as f
    where w.shard = ${shard} and w.id = any(${ownerIds}::bigint[])`;
  if (row === undefined) throw new Error('A count returned no row');
  const { queued, retrying, stale, failed, isMorePending, isMoreEnded, isMoreFailed } = row;
  const notArrived = await listNotArrived(sql, shard, ownerIds, NOT_ARRIVED_COUNTED_MAX);
  const ended = countedRows(counts) + row.ended;
  return {
    all: { count: ended + queued + retrying + stale, isMore: isMorePending || isMoreEnded },
    queued: { count: queued, isMore: isMorePending },
    retrying: { count: retrying, isMore: isMorePending },
    notArrived: {
      count: notArrived.reduce((sum, { count }) => sum + count, 0),
      isMore: notArrived.some(({ count }) => count === NOT_ARRIVED_COUNTED_MAX),
    },
    delivered: isMoreFailed ? undefined : { count: ended - failed, isMore: isMoreEnded },
  };
}

/** Returns those of these types of which the store has a resource with this id. */
export async function findTypesOfResource(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { types, id }: { types: readonly ResourceType[]; id: string },
): Promise<ResourceType[]> {
  const rows = await sql<{ type: ResourceType }[]>`
    select r.type from unnest(${types}::text[]) as t (type) cross join lateral (
      select type from resource where shard = ${shard} and store_id = ${storeId} and type = t.type and id = ${id} limit 1
    ) as r`;
  return rows.map(({ type }) => type);
}

type EventHit = { id: number; type: ResourceType; resourceId: string; action: string };

/** Returns the event with this id, if there is one. */
export function findEventHits(sql: Queryable, { shard, storeId }: StoreKey, id: number): Promise<EventHit[]> {
  return sql<EventHit[]>`
    select id, resource_type as type, resource_id as "resourceId", action from event
    where shard = ${shard} and id = ${id} and store_id = ${storeId}`;
}

type DeliveryHit = { id: number; webhookId: number };

/** Returns the delivery with this id, if there is one of a webhook that exists. */
export function findDeliveryHits(sql: Queryable, { shard, storeId }: StoreKey, id: number): Promise<DeliveryHit[]> {
  return sql<DeliveryHit[]>`
    select w.id as "webhookId", d.id from webhook w
    cross join lateral (
      select id from delivery where shard = ${shard} and id = ${id} and webhook_id = w.id
      union all
      select id from delivery_done where shard = ${shard} and webhook_id = w.id and id = ${id}
    ) as d
    where w.shard = ${shard} and w.store_id = ${storeId}
    limit 1`;
}

type WebhookHit = { id: number; name: string };

/** Returns the webhooks with this id or url, whose query is stored apart and not compared; a store has at most 100. */
export function findWebhookHits(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { id, url }: { id: number | null; url: string | null },
): Promise<WebhookHit[]> {
  return sql<WebhookHit[]>`
    select id, name from webhook
    where shard = ${shard} and store_id = ${storeId} and (id = ${id} or split_part(url, '?', 1) = ${url})
    order by id limit 100`;
}
