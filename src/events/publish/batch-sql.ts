/** The one statement that publishes. */
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import type { PublishColumns } from './columns.ts';

/** Idempotency keys that nobody has used, and the ids that their events get: `{1,2}`. */
export type ClaimColumns = {
  shard: number[];
  storeId: number[];
  key: string[];
  fingerprint: Buffer[];
  eventIds: string[];
};

/** What subscriptions bring in a month from a day on, one a subscription. */
export type TermColumns = {
  shard: number[];
  storeId: number[];
  subscriptionId: string[];
  day: string[];
  currency: string[];
  monthly: string[];
  isActive: boolean[];
  startDay: (string | null)[];
  endDay: (string | null)[];
};

export type Published = {
  eventId: number;
  version: number;
  /** The event about the same resource before this one; null where it is the first. */
  previousId: number | null;
  timeZone: string;
  deliveryId: number | null;
  webhookId: number | null;
  epoch: number | null;
  /** A listener fetches it: no worker is told. Null where there is no delivery. */
  isHeld: boolean | null;
};

export type Batch = {
  columns: PublishColumns;
  claims: ClaimColumns | null;
  terms: TermColumns | null;
  /** Keys of this age or older are free again. */
  staleAt: Date;
  day: number;
  now: Date;
  baseUrl: string;
};

/** Who holds a row is waited for so long; then the statement ends with 55P03. */
export const LOCK_MS = 1_000;

/** Ends the whole statement with SQLSTATE HL001 where somebody else has claimed one of the keys meanwhile. */
const claiming = (sql: Queryable, claims: ClaimColumns, { now, staleAt }: Batch) => sql`
  wanted as materialized (
    select c.*
    from unnest(
      ${claims.shard}::smallint[], ${claims.storeId}::bigint[], ${claims.key}::text[], ${claims.fingerprint}::bytea[],
      ${claims.eventIds}::text[]
    ) as c (shard, store_id, key, fingerprint, event_ids)
    cross join lateral (select from store s where s.shard = c.shard and s.id = c.store_id limit 1) as s
    where (select is_set from hurried) is not null
  ), claimed as (
    insert into publish_key as k (shard, store_id, key, fingerprint, event_ids, date_created)
    select shard, store_id, key, fingerprint, event_ids::bigint[], ${now}::timestamptz from wanted order by shard, store_id, key
    on conflict (shard, store_id, key) do update set
      fingerprint = excluded.fingerprint, event_ids = excluded.event_ids, date_created = excluded.date_created
    where k.date_created <= ${staleAt}
    returning 1
  ), granted as materialized (
    select unless_overtaken((select count(*) from claimed), (select count(*) from wanted)) as is_granted
  ),`;

const keepingTerms = (sql: Queryable, terms: TermColumns) => sql`
  kept as (
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active, start_day, end_day)
    select * from unnest(
      ${terms.shard}::smallint[], ${terms.storeId}::bigint[], ${terms.subscriptionId}::text[], ${terms.day}::date[],
      ${terms.currency}::text[], ${terms.monthly}::numeric[], ${terms.isActive}::boolean[], ${terms.startDay}::date[],
      ${terms.endDay}::date[]
    )
    on conflict (shard, store_id, subscription_id, day) do update set
      currency = excluded.currency, monthly = excluded.monthly, is_active = excluded.is_active,
      start_day = excluded.start_day, end_day = excluded.end_day
  ),`;

/** The version that the resource of this key had when it was erased; 0 where it never was. */
const erasedVersion = (sql: Queryable, key: ReturnType<typeof sql>) =>
  sql`coalesce((select e.version from erased_resource e where (e.shard, e.store_id, e.type, e.id) = (${key})), 0)`;

/** The newest step of the subscription that an event is about, as it was before the batch: it is locked. */
const newestStep = (sql: Queryable) => sql`(
  select b.step_id from resource b
  where b.shard = i.shard and b.store_id = i.store_id and b.type = 'subscription' and b.id = i.about_id
)`;

/** The rows of the batch, each with its store; none before its keys are claimed. */
const reading = (sql: Queryable, columns: PublishColumns, isClaiming: boolean) => sql`
  input as materialized (
    select i.*, s.time_zone
    from unnest(
      ${columns.shard}::smallint[], ${columns.storeId}::bigint[], ${columns.eventId}::bigint[], ${columns.type}::text[],
      ${columns.resourceId}::text[], ${columns.action}::text[], ${columns.nonce}::bigint[],
      ${columns.modifiedAt}::timestamptz[], ${columns.body}::text[], ${columns.after}::int[], ${columns.total}::int[],
      ${columns.isStale}::boolean[], ${columns.isDated}::boolean[], ${columns.datedAt}::timestamptz[],
      ${columns.previousId}::bigint[], ${columns.headId}::bigint[], ${columns.stepId}::bigint[], ${columns.aboutId}::text[],
      ${columns.at}::int[]
    ) as i (shard, store_id, event_id, type, resource_id, action, nonce, modified_at, body, after, total, is_stale,
      is_dated, dated_at, previous_id, head_id, step_id, about_id, at)
    cross join lateral (select s.time_zone from store s where s.shard = i.shard and s.id = i.store_id limit 1) as s
    where (select is_set from hurried) is not null ${isClaiming ? sql`and (select is_granted from granted)` : sql``}
  )`;

/**
 * Everything that follows from a batch of events, in one statement: the resources' new versions, the events, and one
 * delivery for each matching active webhook. One row comes back for each event and delivery; an event of a store that
 * does not exist comes back with no row and leaves nothing.
 *
 * Deliveries are numbered in the order in which their events arrived, and a lane sends by number.
 * Matching stands in the inserting statement: 50 events × 10 matches took 6.2 ms against 4.9 ms without matching, and an
 * index of webhooks in memory would have to be kept true in every process.
 * A resource stands once in `latest`, because `on conflict` refuses to touch a row twice in one statement. An event whose
 * representation is older than the one that is there changes nothing of it and has version 0; versions rise otherwise. What an
 * erasure beside it left is looked for once more when all is written, for the new ones of a batch together: HL001.
 * Each `full join` has a partner on both sides. It is written so because the planner, which cannot know how long an array
 * will be, takes nested loops for an inner one: 500 events then took 60 ms, and take 20.
 */
export const publishBatch = async (sql: Queryable, batch: Batch): Promise<Published[]> => {
  const { columns, claims, terms, day, now, baseUrl } = batch;
  const base = erasedVersion(sql, sql`r.shard, r.store_id, r.type, r.id`);
  const isNewer = sql`(not excluded.is_dated or r.dated_at is null or excluded.modified_at >= r.dated_at)`;
  return sql<Published[]>`
  with hurried as materialized (
    select set_config('lock_timeout', ${String(LOCK_MS)}, true) as is_set
  ), ${claims === null ? sql`` : claiming(sql, claims, batch)} ${terms === null ? sql`` : keepingTerms(sql, terms)}
  ${reading(sql, columns, claims !== null)}, latest as (
    insert into resource as r
      (shard, store_id, type, id, version, modified_at, is_dated, dated_at, event_id, head_event_id, step_id, time_zone,
        base_url, body)
    select shard, store_id, type, resource_id, total + ${erasedVersion(sql, sql`i.shard, i.store_id, i.type, i.resource_id`)},
      modified_at, is_dated, dated_at, event_id, head_id, case when about_id is null then step_id else ${newestStep(sql)} end,
      time_zone, ${baseUrl}, body
    from input i
    where total > 0
    order by shard, store_id, type, resource_id
    on conflict (shard, store_id, type, id) do update set
      version             = case when ${isNewer} then excluded.version + greatest(r.version - ${base}, 0)
                              else r.version end,
      modified_at         = case when ${isNewer} then excluded.modified_at else r.modified_at end,
      is_dated            = case when ${isNewer} then excluded.is_dated else r.is_dated end,
      dated_at            = case when ${isNewer} then greatest(r.dated_at, excluded.dated_at) else r.dated_at end,
      event_id            = case when ${isNewer} then excluded.event_id else r.event_id end,
      time_zone           = case when ${isNewer} then excluded.time_zone else r.time_zone end,
      base_url            = case when ${isNewer} then excluded.base_url else r.base_url end,
      body                = case when ${isNewer} then excluded.body else r.body end,
      head_event_id       = excluded.head_event_id,
      step_id             = coalesce(excluded.step_id, r.step_id),
      superseded_dated_at = r.dated_at,
      superseded_event_id = r.head_event_id
    returning r.shard, r.store_id, r.type, r.id, r.version, r.head_event_id, r.superseded_dated_at, r.superseded_event_id,
      ${base} as floor
  ), checked as materialized (
    select unless_erased(array_agg(shard), array_agg(store_id), array_agg(type), array_agg(id), array_agg(floor)) as is_sound
    from latest where superseded_event_id is null
  ), written as (
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, previous_id, time_zone,
      base_url, date_created, body)
    select i.shard, i.event_id, i.store_id, i.type, i.resource_id, i.action,
      case when i.is_stale or (i.is_dated and i.modified_at < l.superseded_dated_at) then 0 else l.version - i.after end,
      i.nonce, coalesce(i.previous_id, l.superseded_event_id), i.time_zone, ${baseUrl}, ${now}, i.body
    from input i
    full join latest l on l.head_event_id = i.head_id
    returning id, version, previous_id, time_zone
  ), matched as (
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select m.shard, ${nextDeliveryId(sql, day, sql`m.shard`)}, m.store_id, m.webhook_id,
      m.epoch, m.event_id, case when m.is_held then 'infinity' else ${now}::timestamptz end
    from (
      select i.shard, i.store_id, i.event_id, w.id as webhook_id, w.epoch, w.is_held
      from input i
      cross join lateral (
        select w.id, w.epoch, w.is_held from webhook w
        where w.shard = i.shard and w.store_id = i.store_id and w.is_active and (w.url is not null or w.is_held)
          and (i.type || '/' || i.action) = any (w.events)
        offset 0
      ) as w
      order by i.at, w.id
    ) as m
    returning id, webhook_id, epoch, event_id, due_at
  )
  select w.id as "eventId", w.version, w.previous_id as "previousId", w.time_zone as "timeZone",
    m.id as "deliveryId", m.webhook_id as "webhookId", m.epoch,
    m.due_at = 'infinity' as "isHeld"
  from written w
  full join matched m on m.event_id = w.id
  where (select is_sound from checked)`;
};
