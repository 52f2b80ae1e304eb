/** SQL of publishing: the statement of a batch, filters of webhooks, idempotency keys, locked versions, and sample events. */
import { nextDeliveryId } from '#db/partitions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import { IDEMPOTENCY_KEPT_MS } from '#http/idempotency.ts';
import { decisiveDate, type BatchRow } from './rows.ts';
import type { Term } from '#catalog/mrr.ts';
import { PARENT_CHARACTERS, PARENT_MEMBERS, type FrozenEvent } from '#catalog/resource-document.ts';

/** The event of a version that was loaded. No event has this id, so a chain ends there as at an event that retention has deleted. */
export const NO_EVENT = 0;

/** Idempotency keys created at this time or earlier have expired. */
function staleAt(now: Date): Date {
  return new Date(now.getTime() - IDEMPOTENCY_KEPT_MS);
}

/** Returns the key of the resource of an event row in `delivery_order`. A collision makes deliveries wait longer than necessary. */
export function resourceKey(sql: Queryable, row: Fragment): Fragment {
  return sql`hashtextextended(${row}.resource_type || '/' || ${row}.resource_id, 0)`;
}

/** An unused idempotency key, and the ids of its events as an array literal: `{1,2}`. */
export type Claim = { storeId: number; key: string; fingerprint: Buffer; eventIds: string };

/** The monthly revenue of a subscription from a day on. */
export type NewTerm = { storeId: number; subscriptionId: string; day: string; term: Term };

export type Published = {
  eventId: number;
  version: number;
  /** The previous event of the same resource; null for the first. */
  previousId: number | null;
  timeZone: string;
  deliveryId: number | null;
  webhookId: number | null;
  epoch: number | null;
  /** Whether a pull client fetches the delivery, so no worker is notified. Null if there is no delivery. */
  isHeld: boolean | null;
};

/**
 * For each event, the ids of the filters of its store that were evaluated, and of those that the event passes, as array literals; null
 * or absent if there are none.
 */
export type FilterColumns = { known: (string | null)[]; passed: (string | null)[] };

export type Batch = {
  /** In lock order. */
  rows: readonly BatchRow[];
  filters: FilterColumns;
  claims: readonly Claim[];
  /** One per subscription. */
  terms: readonly NewTerm[];
  day: number;
  now: Date;
  baseUrl: string;
};

/** Lock timeout of the statement, after which it fails with SQLSTATE 55P03. */
export const LOCK_MS = 1_000;

/**
 * Inserts the idempotency keys. Fails the statement with SQLSTATE HL001 if a concurrent transaction has claimed one of them.
 */
const claimKeys = (sql: Queryable, { claims, now }: Batch) => sql`
  requested as materialized (
    select c.*
    from unnest(
      ${claims.map(({ storeId }) => shardOf(storeId))}::smallint[], ${claims.map(({ storeId }) => storeId)}::bigint[],
      ${claims.map(({ key }) => key)}::text[], ${claims.map(({ fingerprint }) => fingerprint)}::bytea[],
      ${claims.map(({ eventIds }) => eventIds)}::text[]
    ) as c (shard, store_id, key, fingerprint, event_ids)
    cross join lateral (select from store s where s.shard = c.shard and s.id = c.store_id limit 1) as s
    where (select is_set from lock_limit) is not null
  ), claimed as (
    insert into publish_key as k (shard, store_id, key, fingerprint, event_ids, date_created)
    select shard, store_id, key, fingerprint, event_ids::bigint[], ${now}::timestamptz from requested order by shard, store_id, key
    on conflict (shard, store_id, key) do update set
      fingerprint = excluded.fingerprint, event_ids = excluded.event_ids, date_created = excluded.date_created
    where k.date_created <= ${staleAt(now)}
    returning 1
  ), granted as materialized (
    select unless_overtaken((select count(*) from claimed), (select count(*) from requested)) as is_granted
  ),`;

export function upsertTerms(sql: Queryable, terms: readonly NewTerm[]): Fragment {
  return sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active, start_day, end_day)
    select * from unnest(
      ${terms.map(({ storeId }) => shardOf(storeId))}::smallint[], ${terms.map(({ storeId }) => storeId)}::bigint[],
      ${terms.map(({ subscriptionId }) => subscriptionId)}::text[], ${terms.map(({ day }) => day)}::date[],
      ${terms.map(({ term }) => term.currency)}::text[], ${terms.map(({ term }) => term.monthly)}::numeric[],
      ${terms.map(({ term }) => term.isActive)}::boolean[], ${terms.map(({ term }) => term.startDay)}::date[],
      ${terms.map(({ term }) => term.endDay)}::date[]
    )
    on conflict (shard, store_id, subscription_id, day) do update set
      currency = excluded.currency, monthly = excluded.monthly, is_active = excluded.is_active,
      start_day = excluded.start_day, end_day = excluded.end_day`;
}

/** The version number of the resource when it was erased; 0 if it never was. */
export function erasedVersion(sql: Queryable): Fragment {
  return sql`
  coalesce((
    select e.version from erased_resource e where (e.shard, e.store_id, e.type, e.id) = (r.shard, r.store_id, r.type, r.id)
  ), 0)`;
}

/**
 * Returns the column `parent_id` of a row `i` with the columns `type` and `body`. `known`: the value, where it was read before. The function
 * `write_listed_columns` has the same expression.
 */
export function parentIdOf(sql: Queryable, known: Fragment): Fragment {
  const read = Object.entries(PARENT_MEMBERS).reduce(
    (before, [type, member]) => sql`${before} when ${type} then i.body::json ->> ${member}::text`,
    sql``,
  );
  return sql`left(coalesce(${known}, case i.type ${read} end), ${PARENT_CHARACTERS})`;
}

/** The stored version of the resource; null if there is none. */
const storedVersion = (sql: Queryable) => sql`(
  select b.version from resource b
  where b.shard = i.shard and b.store_id = i.store_id and b.type = i.type and b.id = i.resource_id
)`;

/** The newest step of the subscription before the batch; the subscription is locked. */
const newestStep = (sql: Queryable) => sql`(
  select b.step_id from resource b
  where b.shard = i.shard and b.store_id = i.store_id and b.type = 'subscription' and b.id = i.about_id
)`;

/**
 * The rows of the batch joined with their stores and the last erasure of their resource; empty until the keys are claimed. An event
 * that is dated before the erasure is erased as well.
 */
const readInput = (sql: Queryable, { rows, filters, claims }: Batch) => sql`
  input as materialized (
    select i.*, s.time_zone, coalesce(e.version, 0) as erased_version,
      coalesce(i.is_dated and i.modified_at < e.date_erased, false) as is_erased
    from unnest(
      ${rows.map(({ row }) => row.shard)}::smallint[], ${rows.map(({ row }) => row.storeId)}::bigint[],
      ${rows.map(({ row }) => row.eventId)}::bigint[], ${rows.map(({ row }) => row.event.type)}::text[],
      ${rows.map(({ row }) => row.event.resourceId)}::text[], ${rows.map(({ row }) => row.event.action)}::text[],
      ${rows.map(({ row }) => row.nonce)}::bigint[], ${rows.map(({ modifiedAt }) => modifiedAt)}::timestamptz[],
      ${rows.map(({ row }) => row.event.body)}::text[], ${rows.map(({ row }) => row.event.parentId ?? null)}::text[],
      ${rows.map(({ modifiedAt }) => dayOf(modifiedAt))}::int[],
      ${rows.map(({ after }) => after)}::int[],
      ${rows.map(({ total }) => total)}::int[], ${rows.map(({ isStale }) => isStale)}::boolean[],
      ${rows.map(({ row }) => row.event.kind === 'notice')}::boolean[],
      ${rows.map(({ row }) => row.event.kind === 'deletion')}::boolean[],
      ${rows.map(({ row }) => decisiveDate(row.event) !== null)}::boolean[],
      ${rows.map(({ datedAt }) => datedAt)}::timestamptz[], ${rows.map(({ previousId }) => previousId)}::bigint[],
      ${rows.map(({ headId }) => headId)}::bigint[], ${rows.map(({ stepId }) => stepId)}::bigint[],
      ${rows.map(({ aboutId }) => aboutId)}::text[], ${rows.map(({ row }) => row.at)}::int[],
      ${rows.map(({ row }) => row.traceContext)}::text[], ${filters.known}::text[], ${filters.passed}::text[]
    ) as i (shard, store_id, event_id, type, resource_id, action, nonce, modified_at, body, parent_id, modified_day, after, total, is_stale,
      is_notice, is_deletion, is_dated, dated_at, previous_id, head_id, step_id, about_id, at, trace_context, known, passed)
    cross join lateral (select s.time_zone from store s where s.shard = i.shard and s.id = i.store_id limit 1) as s
    left join lateral (
      select e.version, e.date_erased from erased_resource e
      where e.shard = i.shard and e.store_id = i.store_id and e.type = i.type and e.id = i.resource_id limit 1
    ) as e on true
    where (select is_set from lock_limit) is not null ${claims.length > 0 ? sql`and (select is_granted from granted)` : sql``}
  )`;

/**
 * One delivery per event and matching active webhook, and the order of those of webhooks with an ordering; reads the CTEs `input` and
 * `written`. Without such a webhook `ordered` joins nothing.
 */
const writeDeliveries = (sql: Queryable, { day, now }: Batch) => sql`
  chosen as materialized (
    select i.shard, i.store_id, i.event_id, w.id as webhook_id, w.epoch, w.is_held, w.is_ordered
    from input i
    cross join lateral (
      select w.id, w.epoch, w.is_held, w.filter_id, w.ordering is not null as is_ordered from webhook w
      where w.shard = i.shard and w.store_id = i.store_id and w.is_active and (w.url is not null or w.is_held)
        and (i.type || '/' || i.action) = any (w.events)
      offset 0
    ) as w
    where not i.is_erased
      and (w.filter_id is null or passes_filter(w.filter_id, i.known::bigint[], i.passed::bigint[]))
    order by i.at, w.id
  ), matched as (
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select m.shard, ${nextDeliveryId(sql, day, sql`m.shard`)}, m.store_id, m.webhook_id,
      m.epoch, m.event_id, case when m.is_held then 'infinity' else ${now}::timestamptz end
    from chosen m
    returning shard, id, webhook_id, epoch, event_id, due_at
  ), ordered as (
    insert into delivery_order (shard, delivery_id, webhook_id, resource_key, version)
    select m.shard, m.id, m.webhook_id, ${resourceKey(sql, sql`w`)}, w.version
    from matched m
    full join written w on w.id = m.event_id
    where exists (select from chosen where is_ordered)
      and m.webhook_id = any (array(select webhook_id from chosen where is_ordered)) and w.version > 0
  )`;

/**
 * Writes a batch of events in one statement: the new versions of the resources, the events, and one delivery per matching
 * active webhook. Returns one row per event and delivery; an event of a store that does not exist returns no row and writes
 * nothing.
 *
 * Deliveries are numbered in the order in which their events arrived, and a lane sends in that order. Matching is part of the
 * statement: 50 events × 10 matches took 6.2 ms against 4.9 ms without matching, and an in-memory index of webhooks would have
 * to be kept consistent in every process.
 *
 * Each resource occurs once in `latest`, because `on conflict` cannot update a row twice in one statement. An event whose
 * representation is older than the stored one does not change it and has version 0; otherwise versions increase. An event that is
 * dated before the erasure of its resource has version 0, no body and no deliveries; it extends the chain of events if the
 * resource was published again. After all writes, new resources are checked for a concurrent erasure, which fails the statement
 * with HL001.
 *
 * `offset 0` keeps the planner from comparing filters before the events: only filters of webhooks that subscribe are known.
 *
 * The `full join` with `latest` keeps erased events whose resource does not exist. For all others an inner join would do, but the planner cannot estimate the length of an array
 * and chooses nested loops for it: 500 events then took 60 ms instead of 20 ms.
 */
export async function publishBatch(sql: Queryable, batch: Batch): Promise<Published[]> {
  const { claims, terms, now, baseUrl } = batch;
  const erasedBase = erasedVersion(sql);
  // A notice and an erased event are older than every version, also than one without a date.
  const isNewer = sql`(excluded.dated_at is distinct from '-infinity'
    and (not excluded.is_dated or r.dated_at is null or excluded.modified_at >= r.dated_at))`;
  return sql<Published[]>`
  with lock_limit as materialized (
    select set_config('lock_timeout', ${String(LOCK_MS)}, true) || set_config('halcyon.writes_listed_columns', '1', true) as is_set
  ), ${claims.length === 0 ? sql`` : claimKeys(sql, batch)} ${terms.length === 0 ? sql`` : sql`saved_terms as (${upsertTerms(sql, terms)}),`}
  ${readInput(sql, batch)}, latest as (
    insert into resource as r
      (shard, store_id, type, id, version, modified_at, is_dated, dated_at, event_id, head_event_id, step_id, time_zone,
        base_url, date_deleted, body, modified_day, parent_id)
    select shard, store_id, type, resource_id, total + erased_version,
      modified_at, is_dated, case when is_erased or is_notice then '-infinity' else dated_at end, event_id, head_id,
      case when about_id is null then step_id else ${newestStep(sql)} end,
      time_zone, ${baseUrl}, case when is_deletion then modified_at end, body,
      modified_day, ${parentIdOf(sql, sql`i.parent_id`)}
    from input i
    where total > 0 and (not (is_erased or is_notice) or ${storedVersion(sql)} is not null)
    order by shard, store_id, type, resource_id
    on conflict (shard, store_id, type, id) do update set
      version             = case when ${isNewer} then excluded.version + greatest(r.version - ${erasedBase}, 0)
                              else r.version end,
      modified_at         = case when ${isNewer} then excluded.modified_at else r.modified_at end,
      is_dated            = case when ${isNewer} then excluded.is_dated else r.is_dated end,
      dated_at            = case when ${isNewer} then greatest(r.dated_at, excluded.dated_at) else r.dated_at end,
      event_id            = case when ${isNewer} then excluded.event_id else r.event_id end,
      time_zone           = case when ${isNewer} then excluded.time_zone else r.time_zone end,
      base_url            = case when ${isNewer} then excluded.base_url else r.base_url end,
      date_deleted        = case when ${isNewer} then excluded.date_deleted else r.date_deleted end,
      body                = case when ${isNewer} then excluded.body else r.body end,
      modified_day        = case when ${isNewer} then excluded.modified_day else r.modified_day end,
      parent_id           = case when ${isNewer} then excluded.parent_id else r.parent_id end,
      head_event_id       = excluded.head_event_id,
      step_id             = coalesce(excluded.step_id, r.step_id),
      superseded_dated_at = r.dated_at,
      superseded_event_id = r.head_event_id
    returning r.shard, r.store_id, r.type, r.id, r.version, r.head_event_id, r.superseded_dated_at, r.superseded_event_id,
      ${erasedBase} as floor
  ), checked as materialized (
    select unless_erased(array_agg(shard), array_agg(store_id), array_agg(type), array_agg(id), array_agg(floor)) as is_valid
    from latest where superseded_event_id is null
  ), written as (
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, previous_id, time_zone,
      base_url, date_created, body, trace_context)
    select i.shard, i.event_id, i.store_id, i.type, i.resource_id, i.action,
      case when i.is_stale or i.is_erased or (i.is_dated and i.modified_at < l.superseded_dated_at) then 0 else l.version - i.after end,
      i.nonce, coalesce(i.previous_id, l.superseded_event_id), i.time_zone, ${baseUrl}, ${now},
      case when i.is_erased then '' else i.body end, case when not i.is_erased then i.trace_context end
    from input i
    full join latest l on l.head_event_id = i.head_id
    returning id, resource_type, resource_id, version, previous_id, time_zone
  ), ${writeDeliveries(sql, batch)}
  select w.id as "eventId", w.version, w.previous_id as "previousId", w.time_zone as "timeZone",
    m.id as "deliveryId", m.webhook_id as "webhookId", m.epoch, m.due_at = 'infinity' as "isHeld"
  from written w
  full join matched m on m.event_id = w.id
  where (select is_valid from checked)`;
}

// Sample events.

export type SampleEvent = FrozenEvent & { storeId: number; timeZone: string };

/**
 * Inserts a test event, which belongs to no resource: it creates no version and is in no chain. Returns whether the store
 * exists; the store is locked until the transaction ends, so that its erasure deletes this event too.
 */
export async function insertSample(sql: Queryable, event: SampleEvent, shard: number): Promise<boolean> {
  const { id, storeId, type, resourceId, action, version, nonce, timeZone, baseUrl, dateCreated, body } = event;
  const { count } = await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select s.shard, ${id}, s.id, ${type}, ${resourceId}, ${action}, ${version}, ${nonce}, ${timeZone}, ${baseUrl},
      ${dateCreated}, ${body}
    from store s
    where s.shard = ${shard} and s.id = ${storeId}
    for key share of s`;
  return count === 1;
}

/**
 * Inserts a delivery for the pull client of the webhook, even if the webhook is disabled. Returns its id; undefined if there is
 * no such pull webhook.
 */
export async function insertPullSample(
  sql: Queryable,
  { shard, webhookId, event, day }: { shard: number; webhookId: number; event: SampleEvent; day: number },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select w.shard, ${nextDeliveryId(sql, day, sql`w.shard`)}, w.store_id, w.id, w.epoch,
      ${event.id}, 'infinity'
    from webhook w
    where w.shard = ${shard} and w.id = ${webhookId} and w.is_held
    returning id`;
  return row?.id;
}

// SQL that reads and locks the stored versions that a batch depends on.

/** `newestDate`: the newest date_modified so far, or the later time of an erasure. `body`: null if the resource does not exist. */
type PreviousVersion = {
  storeId: number;
  type: string;
  id: string;
  newestDate: Date | null;
  body: string | null;
  /** Whether it was loaded, and has no event. Null if the resource does not exist. */
  isLoaded: boolean | null;
  isDeleted: boolean;
};

/** Returns one row for each key, and locks the stored versions until the transaction ends. `keys` must be in lock order. */
export function lockPreviousVersions(
  sql: Queryable,
  keys: readonly { storeId: number; type: string; id: string }[],
): Promise<PreviousVersion[]> {
  return sql<PreviousVersion[]>`
  select a.store_id as "storeId", a.type, a.id, greatest(r.dated_at, e.date_erased) as "newestDate", r.body,
    r.event_id = ${NO_EVENT} as "isLoaded", r.date_deleted is not null as "isDeleted"
  from unnest(
    ${keys.map(({ storeId }) => shardOf(storeId))}::smallint[], ${keys.map(({ storeId }) => storeId)}::bigint[],
    ${keys.map(({ type }) => type)}::text[], ${keys.map(({ id }) => id)}::text[]
  ) with ordinality as a (shard, store_id, type, id, n)
  left join lateral (
    select * from resource r
    where r.shard = a.shard and r.store_id = a.store_id and r.type = a.type and r.id = a.id
    limit 1 for update
  ) as r on true
  left join lateral (
    select e.date_erased from erased_resource e
    where e.shard = a.shard and e.store_id = a.store_id and e.type = a.type and e.id = a.id
    limit 1
  ) as e on true
  order by a.n`;
}

// SQL that reads idempotency keys; `publishBatch` inserts them.

export type KnownKey = { storeId: number; key: string; fingerprint: Buffer; eventIds: number[] };

/** Returns the stored keys that have not expired; none of an erased store. */
export function findKeys(
  sql: Queryable,
  keys: readonly Pick<KnownKey, 'storeId' | 'key'>[],
  now: Date,
): Promise<KnownKey[]> {
  return sql<KnownKey[]>`
  select k.store_id as "storeId", k.key, k.fingerprint, k.event_ids as "eventIds"
  from unnest(
    ${keys.map(({ storeId }) => shardOf(storeId))}::smallint[], ${keys.map(({ storeId }) => storeId)}::bigint[], ${keys.map(({ key }) => key)}::text[]
  ) as a (shard, store_id, key)
  cross join lateral (select from store s where s.shard = a.shard and s.id = a.store_id limit 1) as s
  cross join lateral (
    select * from publish_key k where k.shard = a.shard and k.store_id = a.store_id and k.key = a.key limit 1
  ) as k
  where k.date_created > ${staleAt(now)}`;
}

/** `id`: the hash of the text, which has more digits than a JavaScript number. */
export type StoredFilter = { storeId: number; id: string; type: string; filter: string };

/** Returns each filter of the active webhooks of the stores once per type of resource. */
export function filtersOfStores(sql: Queryable, storeIds: readonly number[]): Promise<StoredFilter[]> {
  return sql<StoredFilter[]>`
    select distinct w.store_id as "storeId", w.filter_id::text as id, w.event_resource as type, w.filter
    from unnest(${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[]) as s (shard, store_id)
    cross join lateral (
      select w.store_id, w.filter_id, w.event_resource, w.filter from webhook w
      where w.shard = s.shard and w.store_id = s.store_id and w.is_active and w.filter_id is not null
        and w.event_resource is not null
      offset 0
    ) as w`;
}
