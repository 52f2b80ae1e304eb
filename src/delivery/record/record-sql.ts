/** The statements that record results of deliveries, with the columns that they take. */
import type { Attempt } from '../attempt/attempt.ts';
import { isInternalError, labelOf } from '../attempt/http/attempt-outcome.ts';
import type { Pending, Entry } from '../policy/entry.ts';
import type { Queryable } from '#db/pool.ts';
import { ownedUnder, type Fences } from '../leases/leases-sql.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';

/**
 * Returns the attempt that is stored; null for none. An internal error is not charged, so it takes no number and is not
 * stored, except the last one, which ends the delivery and is shown.
 */
export function storedAttempt({ attempt, next }: Entry): Attempt | null {
  return attempt === null || (isInternalError(attempt.outcome) && 'dueAt' in next) ? null : attempt;
}

/** `keepResponses`: false if the database rejected text sent by a receiver. */
export function toColumns(entries: readonly Entry[], keepResponses: boolean): RecordColumns {
  const stored = entries.map(storedAttempt);
  const replies = stored.map((attempt) => attempt?.outcome.reply ?? null);
  return {
    shard: entries.map(({ shard }) => shard),
    deliveryId: entries.map(({ delivery }) => delivery.id),
    storeId: entries.map(({ delivery }) => delivery.storeId),
    webhookId: entries.map(({ delivery }) => delivery.webhookId),
    eventId: entries.map(({ delivery }) => delivery.eventId),
    startedAt: stored.map((attempt) => attempt?.startedAt ?? null),
    durationMs: stored.map((attempt) => (attempt === null ? null : Math.round(attempt.durationMs))),
    outcome: stored.map((attempt) => (attempt === null ? null : labelOf(attempt.outcome))),
    responseCode: replies.map((reply) => reply?.code ?? null),
    responseHeaders: replies.map((reply) => (keepResponses ? (reply?.headers ?? null) : null)),
    responseBody: replies.map((reply) => (keepResponses ? (reply?.body ?? null) : null)),
    revision: stored.map((attempt) => attempt?.revision ?? null),
    state: entries.map(({ next }) => ('state' in next ? next.state : null)),
    before: entries.map(({ delivery }) => delivery.attempts),
    attempts: entries.map(({ attempts }) => attempts),
    faults: entries.map(({ faults }) => faults),
    dueAt: entries.map(({ next }) => ('state' in next ? null : next.dueAt)),
  };
}

/**
 * Returns the newest state of each webhook. Entries of an epoch older than another entry's are ignored: their attempts
 * began before the webhook was disabled.
 */
export function toStates(entries: readonly Entry[]): StateColumns {
  const newest = new Map<number, { shard: number; delivery: Pending; state: NonNullable<Entry['webhook']> }>();
  for (const { shard, delivery, webhook } of entries) {
    const isOutdated = (newest.get(delivery.webhookId)?.delivery.epoch ?? 0) > delivery.epoch;
    if (webhook !== null && !isOutdated) newest.set(delivery.webhookId, { shard, delivery, state: webhook });
  }
  const rows = [...newest.values()];
  return {
    shard: rows.map(({ shard }) => shard),
    webhookId: rows.map(({ delivery }) => delivery.webhookId),
    epoch: rows.map(({ delivery }) => delivery.epoch),
    consecutiveFailures: rows.map(({ state }) => state.consecutiveFailures),
    firstFailureAt: rows.map(({ state }) => state.firstFailureAt),
    pausedUntil: rows.map(({ state }) => state.pausedUntil),
    probeAt: rows.map(({ state }) => state.probeAt),
    isPendingDisable: rows.map(({ state }) => state.isPendingDisable),
    isWarned: rows.map(({ state }) => state.isWarned),
  };
}

/** One row per finished exchange, or per delivery that ends without one (`startedAt` null), as columns. */
export type RecordColumns = {
  shard: number[];
  deliveryId: number[];
  storeId: number[];
  webhookId: number[];
  eventId: number[];
  startedAt: (Date | null)[];
  durationMs: (number | null)[];
  outcome: (string | null)[];
  responseCode: (number | null)[];
  responseHeaders: (string | null)[];
  responseBody: (string | null)[];
  /** The revision of the webhook with whose settings the request was made; null if none was. */
  revision: (number | null)[];
  /** `successful` or `failed` if the delivery ends; null if it is retried at `dueAt`. */
  state: (string | null)[];
  /** Attempts in the row before this one. A row with another number has been recorded already or is outdated. */
  before: number[];
  attempts: number[];
  faults: number[];
  dueAt: (Date | null)[];
};

/** The newest state of each webhook of the batch. */
export type StateColumns = {
  shard: number[];
  webhookId: number[];
  epoch: number[];
  consecutiveFailures: number[];
  firstFailureAt: (Date | null)[];
  pausedUntil: (Date | null)[];
  probeAt: (Date | null)[];
  isPendingDisable: boolean[];
  isWarned: boolean[];
};

/** In-flight markers to delete (delivery/quarantine/): the worker survived these deliveries. */
export type MarkerColumns = { shard: number[]; deliveryId: number[] };

/** The CTE that writes webhook states; reads the CTE `owned`. */
const upsertStates = (sql: Queryable, states: StateColumns) => sql`
  insert into webhook_state as t (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until,
    probe_at, is_condemned, is_warned)
  select s.shard, s.webhook_id, s.epoch, s.failures, s.first_failure_at, s.paused_until, s.probe_at,
    s.is_condemned, s.is_warned
  from unnest(
    ${states.shard}::smallint[], ${states.webhookId}::bigint[], ${states.epoch}::int[],
    ${states.consecutiveFailures}::int[],
    ${states.firstFailureAt}::timestamptz[], ${states.pausedUntil}::timestamptz[],
    ${states.probeAt}::timestamptz[], ${states.isPendingDisable}::boolean[],
    ${states.isWarned}::boolean[]
  ) as s (shard, webhook_id, epoch, failures, first_failure_at, paused_until, probe_at, is_condemned, is_warned)
  join owned on owned.shard = s.shard
  order by s.shard, s.webhook_id
  on conflict (shard, webhook_id) do update set
    epoch = excluded.epoch,
    consecutive_failures = excluded.consecutive_failures,
    first_failure_at = excluded.first_failure_at,
    paused_until = excluded.paused_until,
    probe_at = excluded.probe_at,
    is_condemned = excluded.is_condemned,
    is_warned = excluded.is_warned
  where t.epoch <= excluded.epoch`;

/**
 * Records a batch of attempts, ends, retries and webhook states in one statement. It reads the fencing tokens `for
 * share` in shard order, records nothing for shards with another owner, and returns the shards that are still owned.
 *
 * Idempotent, because all writes derive from the pending row with the expected number of attempts. `insert … on
 * conflict do nothing` cost 18.9 µs of PostgreSQL's processor time and 888 B of WAL per row; this costs 14.9 µs and 791
 * B.
 *
 * Rows are found by key in a `lateral … limit 1` and changed by their ctid, which no other statement changes while an attempt of
 * the delivery runs (a requested retry changes rows that are due later, delivery/delivery-sql.ts). With a
 * join the planner has a choice: after an ANALYZE of the empty table it read all pending rows for each batch, 1,752 µs
 * per delivery instead of 97.
 */
export async function recordBatch(
  sql: Queryable,
  worker: number,
  fences: Fences,
  rows: RecordColumns,
  states: StateColumns,
  markers: MarkerColumns,
  now: Date,
): Promise<number[]> {
  const owned = await sql<{ shard: number }[]>`
    with ${ownedUnder(sql, worker, fences)}, input as (
      select i.*
      from unnest(
        ${rows.shard}::smallint[], ${rows.deliveryId}::bigint[], ${rows.storeId}::bigint[], ${rows.webhookId}::bigint[],
        ${rows.eventId}::bigint[], ${rows.startedAt}::timestamptz[], ${rows.durationMs}::int[], ${rows.outcome}::text[],
        ${rows.responseCode}::smallint[], ${rows.responseHeaders}::text[], ${rows.responseBody}::text[],
        ${rows.state}::text[], ${rows.before}::smallint[], ${rows.attempts}::smallint[], ${rows.faults}::smallint[],
        ${rows.dueAt}::timestamptz[], ${rows.revision}::int[]
      ) as i (shard, delivery_id, store_id, webhook_id, event_id, started_at, duration_ms, outcome, response_code,
        response_headers, response_body, state, before, attempts, faults, due_at, webhook_revision)
      join owned on owned.shard = i.shard
    ), found as materialized (
      select i.*, p.place from input i cross join lateral (
        select d.ctid as place from delivery d
        where d.shard = i.shard and d.id = i.delivery_id and d.attempts = i.before
        limit 1 for update
      ) as p
    ), ended as (
      delete from delivery d using found f where f.state is not null and d.ctid = f.place
      returning f.*
    ), rescheduled as (
      update delivery d set attempts = f.attempts, faults = f.faults, due_at = f.due_at
      from found f
      where f.state is null and d.ctid = f.place
      returning f.*
    ), attempted as (
      insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome,
        response_code, response_headers, response_body, webhook_revision)
      select shard, delivery_id, attempts, store_id, webhook_id, event_id, started_at, duration_ms, outcome, response_code,
        response_headers, response_body, webhook_revision
      from rescheduled where started_at is not null
    ), done as (
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started,
        duration_ms, outcome, response_code, response_headers, response_body, webhook_revision)
      select shard, delivery_id, store_id, webhook_id, event_id, state, attempts, ${now}, started_at, duration_ms, outcome,
        response_code, response_headers, response_body, webhook_revision
      from ended
    ), saved_states as (${upsertStates(sql, states)}
    ), unmarked as (
      delete from delivery_suspect where ctid = any(array(
        select p.place
        from unnest(${markers.shard}::smallint[], ${markers.deliveryId}::bigint[]) as n (shard, delivery_id)
        join owned on owned.shard = n.shard
        cross join lateral (
          select s.ctid as place from delivery_suspect s where s.shard = n.shard and s.delivery_id = n.delivery_id limit 1
        ) as p
      ))
    )
    select shard from owned`;
  return owned.map(({ shard }) => shard);
}

/**
 * Makes the next delivery of each resource due, after these have ended: in a statement that begins after their end is committed, so
 * that it sees each delivery that waits for them. Deletes their rows of `delivery_order`.
 */
export async function releaseNext(
  sql: Queryable,
  { shard, deliveryId }: { shard: number[]; deliveryId: number[] },
  now: Date,
): Promise<void> {
  await sql`
    with left_order as (
      delete from delivery_order where ctid = any(array(
        select o.place
        from unnest(${shard}::smallint[], ${deliveryId}::bigint[]) as n (shard, delivery_id)
        cross join lateral (
          select o.ctid as place from delivery_order o where o.shard = n.shard and o.delivery_id = n.delivery_id limit 1
        ) as o
      ))
      returning shard, webhook_id, resource_key, version
    )
    update delivery set due_at = ${now} where ctid = any(array(
      select next.place
      from left_order l
      cross join lateral (
        select d.place
        from delivery_order o
        cross join lateral (
          select d.ctid as place from delivery d where d.shard = o.shard and d.id = o.delivery_id limit 1 for update
        ) as d
        where o.shard = l.shard and o.webhook_id = l.webhook_id and o.resource_key = l.resource_key and o.version > l.version
        order by o.version
        limit 1
      ) as next
    ))`;
}

/**
 * Records the result of one delivery and its webhook's state without history, under the shard's fencing token: for rows
 * that the database rejects, such as without their partition. Returns whether the shard is still owned.
 */
export async function recordWithoutHistory(
  sql: Queryable,
  worker: number,
  fence: { shard: number; fence: number },
  row: { id: number; hasEnded: boolean; before: number; attempts: number; faults: number; dueAt: Date },
  states: StateColumns,
): Promise<boolean> {
  const owned = await sql`
    with owned as materialized (
      select shard from shard_lease
      where shard = ${fence.shard} and owner = ${worker} and fence = ${fence.fence}
      for share
    ), ended as (
      delete from delivery d using owned
      where ${row.hasEnded} and d.shard = owned.shard and d.id = ${row.id} and d.attempts = ${row.before}
    ), rescheduled as (
      update delivery d set attempts = ${row.attempts}, faults = ${row.faults}, due_at = ${row.dueAt}
      from owned
      where not ${row.hasEnded} and d.shard = owned.shard and d.id = ${row.id} and d.attempts = ${row.before}
    ), saved_states as (${upsertStates(sql, states)}
    ), unmarked as (
      delete from delivery_suspect s using owned where s.shard = owned.shard and s.delivery_id = ${row.id}
    )
    select shard from owned`;
  return owned.length > 0;
}

/** Locks the shard's lease for the transaction; returns whether it is owned under that token. */
export async function lockShard(
  tx: Queryable,
  worker: number,
  { shard, fence }: { shard: number; fence: number },
): Promise<boolean> {
  const owned = await tx`
    select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share`;
  return owned.length > 0;
}

/**
 * Deletes states of deleted webhooks. Deleting them with the webhook is not enough: a worker may record a running
 * attempt later. With none to delete, scanning a million rows takes 0.8 s.
 */
export async function purgeStates(sql: Queryable, limit: number): Promise<number> {
  const { count } = await sql`
    delete from webhook_state where ctid = any(array(
      select t.ctid from webhook_state t
      where not exists (select from webhook w where w.shard = t.shard and w.id = t.webhook_id)
      limit ${limit} for update of t skip locked
    ))
  `;
  return count;
}

/**
 * Erases the responses to events of one store; attempts, their times and outcomes remain. A delivery is never older
 * than its event, so earlier days are not scanned, and each later day has a small index. Returns the events with
 * unanswered pull deliveries: a listener may have received them and still answer.
 */
export async function blankAnswers(
  sql: Queryable,
  { shard, storeId, ids }: { shard: number; storeId: number; ids: readonly number[] },
): Promise<number[]> {
  const ended = sql`
    d.event_id = erased.id and d.shard = ${shard} and d.store_id = ${storeId} and d.id >= ${firstIdOfDay(dayOfId(Math.min(...ids)))}`;
  const rows = await sql<{ id: number; eventId: number; isPull: boolean }[]>`
    select id, event_id as "eventId", due_at = 'infinity' as "isPull" from delivery
    where shard = ${shard} and store_id = ${storeId} and event_id = any(${ids}::bigint[])
    union all
    select d.id, d.event_id, false from unnest(${ids}::bigint[]) as erased (id) join delivery_done d on ${ended}`;
  const deliveries = rows.map(({ id }) => id);
  await sql`
    update attempt set response_headers = null, response_body = null
    where shard = ${shard} and delivery_id = any(${deliveries}::bigint[])
      and (response_headers is not null or response_body is not null)`;
  // After the pending ones were read: a delivery that ended since is among these.
  await sql`
    update delivery_done d set response_headers = null, response_body = null
    from unnest(${ids}::bigint[]) as erased (id)
    where ${ended} and (d.response_headers is not null or d.response_body is not null)`;
  return [...new Set(rows.flatMap(({ isPull, eventId }) => (isPull ? [eventId] : [])))];
}
