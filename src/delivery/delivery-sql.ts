/** The statements about deliveries and their events that several parts of delivery execute. */
import type { Queryable } from '#db/pool.ts';
import { nextDeliveryId } from '#db/partitions.ts';
import { shardOf } from '#core/ids.ts';
import type { FrozenEvent } from '#catalog/resource-document.ts';
import type { AttemptRow } from './attempt/attempt.ts';
import type { TargetRow } from './attempt/delivery-target.ts';

export type EventRow = FrozenEvent & { storeId: number };
/** Finds an event by the index of its store. */
export type EventKey = { storeId: number; eventId: number };

/**
 * Returns events in the order of their keys, without erased and deleted ones: the first, and further ones up to `limitBytes` of text, because
 * the whole result is in memory at once.
 */
export async function loadEvents(sql: Queryable, keys: readonly EventKey[], limitBytes = Number.MAX_SAFE_INTEGER) {
  return sql<EventRow[]>`
  select id, store_id as "storeId", resource_type as type, resource_id as "resourceId", action, version, nonce,
    base_url as "baseUrl", date_created as "dateCreated", body, trace_context as "traceContext"
  from (
    select e.*, requested.at, sum(octet_length(e.body)) over (order by requested.at) - octet_length(e.body) as before
    from unnest(
      ${keys.map(({ storeId }) => shardOf(storeId))}::smallint[], ${keys.map(({ storeId }) => storeId)}::bigint[],
      ${keys.map(({ eventId }) => eventId)}::bigint[]
    ) with ordinality as requested (shard, store_id, id, at)
    cross join lateral (
      select * from event e
      where e.shard = requested.shard and e.store_id = requested.store_id and e.id = requested.id and e.body <> ''
      limit 1
    ) as e
  ) as sized
  where before < ${limitBytes}::bigint
  order by at`;
}

// The statement that reads the targets of webhooks, by shard and id. The webhook of an app may be in an erased store, which has no domain.

export async function loadTargets(sql: Queryable, shards: number[], webhookIds: number[]) {
  return sql<TargetRow[]>`
  select w.id, w.store_id as "storeId", coalesce(s.domain, '') as "storeDomain", w.epoch, w.revision, w.request_since as "requestSince", w.is_active as "isActive", w.is_held as "isHeld", w.format, w.url,
    w.query, coalesce(w.encryption_key, a.key) as "encryptionKey", a.client as "appOfKey", coalesce(w.next_encryption_key, a.next_key) as "nextEncryptionKey",
    coalesce(w.rotation_ends_at, a.rotation_ends_at) as "rotationEndsAt", coalesce(w.rotated_at, a.rotated_at) as "rotatedAt", w.event_resource as "eventResource", w.headers,
    w.request_secrets as "requestSecrets",
    w.rate_per_second as "ratePerSecond", w.retry_profile as "retryProfile", w.ordering is not null as "isOrdered",
    coalesce(t.consecutive_failures, 0) as "consecutiveFailures", t.first_failure_at as "firstFailureAt",
    coalesce(t.is_warned and t.consecutive_failures > 0, false) as "isWarned", t.paused_until as "pausedUntil", t.probe_at as "probeAt",
    coalesce(t.is_condemned and t.consecutive_failures > 0, false) as "isPendingDisable",
    coalesce(t.consecutive_failures = 0, false) as "hasSucceeded"
  from unnest(${shards}::smallint[], ${webhookIds}::bigint[]) as lane (shard, id)
  cross join lateral (select * from webhook w where w.shard = lane.shard and w.id = lane.id limit 1) as w
  left join lateral (select s.domain from store s where s.shard = lane.shard and s.id = w.store_id limit 1) as s on true
  left join lateral (
    select * from app_webhook a where w.is_for_app and a.client = w.client limit 1
  ) as a on true
  left join lateral (
    select * from webhook_state t where t.shard = lane.shard and t.webhook_id = w.id and t.epoch = w.epoch limit 1
  ) as t on true`;
}

/** The settings of a webhook that make its requests. */
type RequestSettings = Pick<TargetRow, 'format' | 'url' | 'query' | 'eventResource' | 'headers' | 'requestSecrets'>;

/** `hasKey`: requests were made with a key. `isRekeyed`: the key has been replaced since. */
export type PastSettings = RequestSettings & { hasKey: boolean; isRekeyed: boolean };

/**
 * Returns the settings of the webhook at a revision before that of its present ones; undefined if they are not kept. If they are, so are
 * those of all later revisions.
 */
export async function findPastSettings(
  sql: Queryable,
  { shard, webhookId, revision }: { shard: number; webhookId: number; revision: number },
): Promise<PastSettings | undefined> {
  const [row] = await sql<PastSettings[]>`
    select v.format, v.url, v.query, v.event_resource as "eventResource", v.headers, v.request_secrets as "requestSecrets",
      v.has_key as "hasKey", exists (
        select from webhook_version n
        where n.shard = ${shard} and n.webhook_id = ${webhookId} and n.revision >= ${revision} and n.is_rekeyed
      ) as "isRekeyed"
    from webhook_version v
    where v.shard = ${shard} and v.webhook_id = ${webhookId} and v.revision >= ${revision} and v.since <= ${revision}
    order by v.revision limit 1`;
  return row;
}

// Statements of test deliveries, which bypass the lanes.

export type TestAttemptRow = AttemptRow & {
  shard: number;
  day: number;
  storeId: number;
  webhookId: number;
  eventId: number;
  now: Date;
};

/** Returns whether the webhook exists, and locks it against deletion until the transaction ends. */
export async function lockWebhook(sql: Queryable, { shard, id }: { shard: number; id: number }): Promise<boolean> {
  const rows = await sql`select from webhook where shard = ${shard} and id = ${id} for key share`;
  return rows.length === 1;
}

/**
 * Inserts the finished delivery and its only attempt; returns the delivery's id. It is never pending, so no worker
 * sends it.
 */
export async function insertTestDelivery(sql: Queryable, row: TestAttemptRow): Promise<number> {
  const [written] = await sql<{ id: number }[]>`
    with allocated as materialized (
      select ${nextDeliveryId(sql, row.day, sql`${row.shard}::smallint`)} as id
    )
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started,
      duration_ms, outcome, response_code, response_headers, response_body, webhook_revision)
    select ${row.shard}, id, ${row.storeId}, ${row.webhookId}, ${row.eventId}, ${row.state}, 1, ${row.now}, ${row.startedAt},
      ${row.durationMs}, ${row.outcome}, ${row.responseCode}, ${row.responseHeaders}, ${row.responseBody}, ${row.revision}
    from allocated
    returning id`;
  if (written === undefined) throw new Error('Inserting a delivery returned no row');
  return written.id;
}

// SQL that makes pending deliveries due before their time; to be called in a transaction that has locked the row of the webhook.

/** A pending delivery of a webhook, or all without `deliveryId`. */
export type Retried = { shard: number; webhookId: number; epoch: number; deliveryId: number | undefined; now: Date };

/**
 * Deliveries that are due within this time keep it. A worker may be sending them, and the record of an attempt does not find a row
 * that another transaction changed meanwhile (delivery/record/record-sql.ts). Longer than the transaction takes.
 */
const DUE_SOON_MS = 10_000;
/** More deliveries than wait for a retry while a breaker limits the attempts; others keep their due times. */
const RETRIED_MAX = 10_000;

/** Makes one pending delivery of the webhook due now, or all of them. */
export async function makeDue(tx: Queryable, { shard, webhookId, epoch, deliveryId, now }: Retried): Promise<void> {
  const soon = new Date(now.getTime() + DUE_SOON_MS);
  const chosen = deliveryId === undefined ? tx`` : tx`and id = ${deliveryId}`;
  await tx`
    update delivery set due_at = ${now} where ctid = any(array(
      select ctid from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and epoch = ${epoch} and due_at > ${soon} and due_at > '-infinity'
        and due_at < 'infinity' ${chosen}
      order by due_at limit ${RETRIED_MAX} for update skip locked
    ))`;
}

/** Ends the pause of the webhook and makes a probe due in the table; the worker keeps both in memory. */
export async function endBackoff(
  tx: Queryable,
  { shard, webhookId, epoch, now }: Omit<Retried, 'deliveryId'>,
): Promise<void> {
  await tx`
    update webhook_state set paused_until = null, probe_at = least(probe_at, ${now})
    where shard = ${shard} and webhook_id = ${webhookId} and epoch = ${epoch}`;
}

/** Sends a NOTIFY. For new work `payload` is a list of `shard:webhook:delivery`, separated by commas. */
export async function notify(sql: Queryable, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`;
}

/** Attempts per webhook, hour in which they began, and outcome. */
export type HourRow = {
  shard: number;
  webhookId: number;
  hourMs: number;
  outcome: string;
  attempts: number;
  durations: number[];
};

/**
 * Adds to existing rows, except of shards that have moved to another database meanwhile. In key order, so that two workers that write the same shard after a take-over do not deadlock.
 */
export async function addHours(sql: Queryable, rows: readonly HourRow[]): Promise<void> {
  // As array literals: `unnest` would flatten an array of arrays.
  const durations = rows.map((row) => `{${row.durations.join()}}`);
  await sql`
    insert into webhook_hour as t (shard, webhook_id, hour, outcome, attempts, durations)
    select n.shard, n.webhook_id, n.hour, n.outcome, n.attempts, n.durations::bigint[]
    from unnest(
      ${rows.map(({ shard }) => shard)}::smallint[], ${rows.map(({ webhookId }) => webhookId)}::bigint[],
      ${rows.map(({ hourMs }) => new Date(hourMs))}::timestamptz[], ${rows.map(({ outcome }) => outcome)}::text[],
      ${rows.map(({ attempts }) => attempts)}::bigint[], ${durations}::text[]
    ) as n (shard, webhook_id, hour, outcome, attempts, durations)
    where exists (select from shard_lease l where l.shard = n.shard)
    order by n.shard, n.webhook_id, n.hour, n.outcome
    on conflict (shard, webhook_id, hour, outcome) do update set
      attempts = t.attempts + excluded.attempts,
      durations = array(
        select coalesce(d.before, 0) + coalesce(d.added, 0)
        from unnest(t.durations, excluded.durations) with ordinality as d (before, added, bucket)
        order by d.bucket)`;
}

/** Deletes hours before a date, including those of deleted webhooks. */
export async function purgeHours(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from webhook_hour where ctid = any(array(
      select ctid from webhook_hour where hour < ${before} order by hour limit ${limit} for update skip locked
    ))`;
  return count;
}
