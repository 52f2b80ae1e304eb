/** The statements of a shard owner under its fencing tokens: they mark deliveries as in flight, and record their results. */
import type { Attempt } from '../attempt/attempt.ts';
import { isInternalError, labelOf } from '../attempt/http/attempt-outcome.ts';
import type { Pending, Entry } from '../policy/entry.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';

// Fencing tokens: what a shard owner writes is written only under the token of its shard.

/** A shard, and the fencing token under which it is owned. */
export type Fence = { shard: number; fence: number };

/** Returns those of the shards that are owned, in their order. */
export function fencesOf(
  ownership: { fenceOf: (shard: number) => number | undefined },
  shards: readonly number[],
): Fence[] {
  return [...new Set(shards)]
    .toSorted((a, b) => a - b)
    .flatMap((shard) => {
      const fence = ownership.fenceOf(shard);
      return fence === undefined ? [] : [{ shard, fence }];
    });
}

/**
 * The CTE `owned (shard, fence)`: those of the shards that the worker owns under these tokens. Locked in shard order until the transaction ends. With a
 * join PostgreSQL read all leases after an ANALYZE at a time without owners: 22.8 µs a row of a batch instead of 1.2.
 */
export function ownedUnder(sql: Queryable, worker: number, fences: readonly Fence[]): Fragment {
  return sql`owned as materialized (
    select o.shard, o.fence
    from (
      select * from unnest(${fences.map(({ shard }) => shard)}::smallint[], ${fences.map(({ fence }) => fence)}::bigint[]) as u (shard, fence)
      order by u.shard
    ) as f
    cross join lateral (
      select l.shard, l.fence from shard_lease l
      where l.shard = f.shard and l.owner = ${worker} and l.fence = f.fence
      limit 1 for share
    ) as o
  )`;
}

/** Locks the shard's lease for the transaction; returns whether it is owned under that token. */
export async function lockShard(tx: Queryable, worker: number, { shard, fence }: Fence): Promise<boolean> {
  const owned = await tx`
    select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share`;
  return owned.length > 0;
}

// Markers of deliveries in flight.

export type Marker = { shard: number; deliveryId: number };
/** `fence`: the token of the owner that sent it last. */
export type StoredMarker = Marker & { fence: number; crashCount: number };

/** Returns the deliveries that were in flight when owners of these shards crashed. */
export async function loadMarkers(sql: Queryable, shards: readonly number[]) {
  return sql<StoredMarker[]>`
  select shard, delivery_id as "deliveryId", fence, deaths as "crashCount"
  from delivery_suspect where shard = any (${shards}::smallint[])`;
}

/**
 * Marks deliveries as in flight before they are sent, if the fencing tokens are current; existing markers keep their
 * crash count. Returns the shards that are still owned: deliveries of the others must not be sent.
 */
export async function insertMarkers(
  sql: Queryable,
  worker: number,
  fences: readonly Fence[],
  markers: readonly Marker[],
): Promise<number[]> {
  const shards = markers.map(({ shard }) => shard);
  const ids = markers.map(({ deliveryId }) => deliveryId);
  const owned = await sql<{ shard: number }[]>`
    with ${ownedUnder(sql, worker, fences)}, marked as (
      insert into delivery_suspect (shard, delivery_id, fence)
      select n.shard, n.delivery_id, owned.fence
      from unnest(${shards}::smallint[], ${ids}::bigint[]) as n (shard, delivery_id)
      join owned on owned.shard = n.shard
      order by n.shard, n.delivery_id
      on conflict (shard, delivery_id) do update set fence = excluded.fence
    )
    select shard from owned`;
  return owned.map(({ shard }) => shard);
}

// Results.

/**
 * Returns the attempt that is stored; null for none. An internal error is not charged, so it takes no number and is not
 * stored, except the last one, which ends the delivery and is shown.
 */
export function storedAttempt({ attempt, next }: Entry): Attempt | null {
  return attempt === null || (isInternalError(attempt.outcome) && 'dueAt' in next) ? null : attempt;
}

type StateRow = { shard: number; delivery: Pending; state: NonNullable<Entry['webhook']> };

/**
 * Returns the newest state of each webhook. Entries of an epoch older than another entry's are ignored: their attempts
 * began before the webhook was disabled.
 */
export function toStates(entries: readonly Entry[]): StateRow[] {
  const newest = new Map<number, StateRow>();
  for (const { shard, delivery, webhook } of entries) {
    const isOutdated = (newest.get(delivery.webhookId)?.delivery.epoch ?? 0) > delivery.epoch;
    if (webhook !== null && !isOutdated) newest.set(delivery.webhookId, { shard, delivery, state: webhook });
  }
  return [...newest.values()];
}

/** The CTE that writes webhook states; reads the CTE `owned`. */
const upsertStates = (sql: Queryable, states: readonly StateRow[]) => sql`
  insert into webhook_state as t (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until,
    probe_at, is_condemned, is_warned)
  select s.shard, s.webhook_id, s.epoch, s.failures, s.first_failure_at, s.paused_until, s.probe_at,
    s.is_condemned, s.is_warned
  from unnest(
    ${states.map(({ shard }) => shard)}::smallint[], ${states.map(({ delivery }) => delivery.webhookId)}::bigint[],
    ${states.map(({ delivery }) => delivery.epoch)}::int[], ${states.map(({ state }) => state.consecutiveFailures)}::int[],
    ${states.map(({ state }) => state.firstFailureAt)}::timestamptz[], ${states.map(({ state }) => state.pausedUntil)}::timestamptz[],
    ${states.map(({ state }) => state.probeAt)}::timestamptz[], ${states.map(({ state }) => state.isPendingDisable)}::boolean[],
    ${states.map(({ state }) => state.isWarned)}::boolean[]
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
 * The CTE of the entries: finished exchanges, and deliveries that end without one (`started_at` is null); reads the CTE `owned`. `state` is null for
 * a retry. A row of `delivery` with other attempts than `before` has been recorded already or is outdated.
 */
function inputOf(sql: Queryable, entries: readonly Entry[], keepResponses: boolean): Fragment {
  const deliveries = entries.map(({ delivery }) => delivery);
  const stored = entries.map(storedAttempt);
  const replies = stored.map((attempt) => attempt?.outcome.reply ?? null);
  const kept = keepResponses ? replies : replies.map(() => null);
  return sql`
    select i.*
    from unnest(
      ${entries.map(({ shard }) => shard)}::smallint[], ${deliveries.map(({ id }) => id)}::bigint[],
      ${deliveries.map(({ storeId }) => storeId)}::bigint[], ${deliveries.map(({ webhookId }) => webhookId)}::bigint[],
      ${deliveries.map(({ eventId }) => eventId)}::bigint[], ${stored.map((attempt) => attempt?.startedAt ?? null)}::timestamptz[],
      ${stored.map((attempt) => attempt && Math.round(attempt.durationMs))}::int[],
      ${stored.map((attempt) => attempt && labelOf(attempt.outcome))}::text[], ${replies.map((reply) => reply?.code ?? null)}::smallint[],
      ${kept.map((reply) => reply?.headers ?? null)}::text[], ${kept.map((reply) => reply?.body ?? null)}::text[],
      ${entries.map(({ next }) => ('state' in next ? next.state : null))}::text[], ${deliveries.map(({ attempts }) => attempts)}::smallint[],
      ${entries.map(({ attempts }) => attempts)}::smallint[], ${entries.map(({ faults }) => faults)}::smallint[],
      ${entries.map(({ next }) => ('state' in next ? null : next.dueAt))}::timestamptz[],
      ${stored.map((attempt) => attempt?.revision ?? null)}::int[]
    ) as i (shard, delivery_id, store_id, webhook_id, event_id, started_at, duration_ms, outcome, response_code,
      response_headers, response_body, state, before, attempts, faults, due_at, webhook_revision)
    join owned on owned.shard = i.shard`;
}

/**
 * Records a batch of attempts, ends, retries and webhook states in one statement. It reads the fencing tokens `for
 * share` in shard order, records nothing for shards with another owner, and returns the shards that are still owned. `keepResponses`: false
 * if the database rejected text sent by a receiver. `marked`: the entries whose in-flight markers are deleted, because the worker survived.
 *
 * Idempotent, because all writes derive from the pending row with the expected number of attempts. `insert … on
 * conflict do nothing` cost 18.9 µs of PostgreSQL's processor time and 888 B of WAL per row; this costs 14.9 µs and 791
 * B.
 *
 * Rows are found by key in a `lateral … limit 1` and changed by their ctid, which no other statement changes while an attempt of
 * the delivery runs (a requested retry changes rows that are due later, delivery/delivery-sql.ts). They are not locked before, which
 * wrote 54 B of WAL per row: the number of attempts is compared again, for a row that the same batch, repeated, has changed meanwhile. With a
 * join the planner has a choice: after an ANALYZE of the empty table it read all pending rows for each batch, 1,752 µs
 * per delivery instead of 97.
 */
export async function recordBatch(
  sql: Queryable,
  worker: number,
  fences: readonly Fence[],
  entries: readonly Entry[],
  { keepResponses, marked, now }: { keepResponses: boolean; marked: readonly Entry[]; now: Date },
): Promise<number[]> {
  const owned = await sql<{ shard: number }[]>`
    with ${ownedUnder(sql, worker, fences)}, input as (${inputOf(sql, entries, keepResponses)}
    ), found as materialized (
      select i.*, p.place from input i cross join lateral (
        select d.ctid as place from delivery d
        where d.shard = i.shard and d.id = i.delivery_id and d.attempts = i.before
        limit 1
      ) as p
    ), ended as (
      delete from delivery d using found f where f.state is not null and d.ctid = f.place and d.attempts = f.before
      returning f.*
    ), rescheduled as (
      update delivery d set attempts = f.attempts, faults = f.faults, due_at = f.due_at
      from found f
      where f.state is null and d.ctid = f.place and d.attempts = f.before
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
    ), saved_states as (${upsertStates(sql, toStates(entries))}
    ), unmarked as (
      delete from delivery_suspect where ctid = any(array(
        select p.place
        from unnest(${marked.map(({ shard }) => shard)}::smallint[], ${marked.map(({ delivery }) => delivery.id)}::bigint[]) as n (shard, delivery_id)
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
export async function releaseNext(sql: Queryable, ended: readonly Entry[], now: Date): Promise<void> {
  await sql`
    with left_order as (
      delete from delivery_order where ctid = any(array(
        select o.place
        from unnest(${ended.map(({ shard }) => shard)}::smallint[], ${ended.map(({ delivery }) => delivery.id)}::bigint[]) as n (shard, delivery_id)
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
  fence: Fence,
  row: { id: number; hasEnded: boolean; before: number; attempts: number; faults: number; dueAt: Date },
  states: readonly StateRow[],
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
