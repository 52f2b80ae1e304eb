import type { Queryable } from '#database/pool.ts';

/** One row a finished exchange (or a delivery that ends without one, `n` 0), as columns. */
export type RecordColumns = {
  shard: number[];
  deliveryId: number[];
  storeId: number[];
  webhookId: number[];
  eventId: number[];
  n: number[];
  startedAt: Date[];
  durationMs: number[];
  outcome: string[];
  responseCode: (number | null)[];
  responseHeaders: (string | null)[];
  responseBody: (string | null)[];
  /** `successful` or `failed` where the delivery ends; null where it is tried again at `dueAt`. */
  state: (string | null)[];
  attempts: number[];
  dueAt: Date[];
};

/** The newest state of each webhook of the batch. */
export type StateColumns = {
  shard: number[];
  webhookId: number[];
  epoch: number[];
  consecutiveFailures: number[];
  firstFailureAt: (Date | null)[];
  pausedUntil: (Date | null)[];
};

export type Fences = { shard: number[]; fence: number[] };

/**
 * Records a batch: attempts, ends, reschedulings and webhook states, in one statement. The fences are read `for share`,
 * shards in order, in the statement that writes: what a worker sends for a shard that changed hands is not recorded.
 * Answers the shards that are still held. Idempotent: an attempt is written once, a delivery ends once.
 */
export const recordBatch = async (
  sql: Queryable,
  worker: number,
  fences: Fences,
  rows: RecordColumns,
  states: StateColumns,
  now: Date,
): Promise<number[]> => {
  const held = await sql<{ shard: number }[]>`
    with held as materialized (
      select l.shard
      from shard_lease l
      join unnest(${fences.shard}::smallint[], ${fences.fence}::bigint[]) as f (shard, fence) on f.shard = l.shard
      where l.owner = ${worker} and l.fence = f.fence
      order by l.shard
      for share of l
    ), input as (
      select i.*
      from unnest(
        ${rows.shard}::smallint[], ${rows.deliveryId}::bigint[], ${rows.storeId}::bigint[], ${rows.webhookId}::bigint[],
        ${rows.eventId}::bigint[], ${rows.n}::smallint[], ${rows.startedAt}::timestamptz[], ${rows.durationMs}::int[],
        ${rows.outcome}::text[], ${rows.responseCode}::smallint[], ${rows.responseHeaders}::text[],
        ${rows.responseBody}::text[], ${rows.state}::text[], ${rows.attempts}::smallint[], ${rows.dueAt}::timestamptz[]
      ) as i (shard, delivery_id, store_id, webhook_id, event_id, n, started_at, duration_ms, outcome, response_code,
        response_headers, response_body, state, attempts, due_at)
      join held on held.shard = i.shard
    ), attempted as (
      insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome,
        response_code, response_headers, response_body)
      select shard, delivery_id, n, store_id, webhook_id, event_id, started_at, duration_ms, outcome, response_code,
        response_headers, response_body
      from input where n > 0
      on conflict (shard, delivery_id, n) do nothing
    ), ended as (
      delete from delivery d using input i
      where i.state is not null and d.shard = i.shard and d.id = i.delivery_id
      returning d.shard, d.id, d.store_id, d.webhook_id, d.event_id, i.state, i.attempts
    ), done as (
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      select shard, id, store_id, webhook_id, event_id, state, attempts, ${now} from ended
      on conflict (shard, id) do nothing
    ), rescheduled as (
      update delivery d set attempts = i.attempts, due_at = i.due_at
      from input i
      where i.state is null and d.shard = i.shard and d.id = i.delivery_id
    ), stated as (
      insert into webhook_state as t (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until)
      select s.shard, s.webhook_id, s.epoch, s.failures, s.first_failure_at, s.paused_until
      from unnest(
        ${states.shard}::smallint[], ${states.webhookId}::bigint[], ${states.epoch}::int[],
        ${states.consecutiveFailures}::int[],
        ${states.firstFailureAt}::timestamptz[], ${states.pausedUntil}::timestamptz[]
      ) as s (shard, webhook_id, epoch, failures, first_failure_at, paused_until)
      join held on held.shard = s.shard
      order by s.shard, s.webhook_id
      on conflict (shard, webhook_id) do update set
        epoch = excluded.epoch,
        consecutive_failures = excluded.consecutive_failures,
        first_failure_at = excluded.first_failure_at,
        paused_until = excluded.paused_until
      where t.epoch <= excluded.epoch
    )
    select shard from held`;
  return held.map(({ shard }) => shard);
};
