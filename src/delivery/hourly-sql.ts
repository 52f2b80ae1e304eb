import type { Queryable } from '#db/pool.ts';

/** Attempts per webhook, hour in which they began, and outcome. */
export type HourColumns = {
  shard: number[];
  webhookId: number[];
  hour: Date[];
  outcome: string[];
  attempts: number[];
  /** Histograms as PostgreSQL array literals: `unnest` would flatten an array of arrays. */
  durations: string[];
};

/**
 * Adds to existing rows, except of shards that have moved to another database meanwhile. In key order, so that two workers that write the same shard after a take-over do not deadlock.
 */
export async function addHours(sql: Queryable, rows: HourColumns): Promise<void> {
  await sql`
    insert into webhook_hour as t (shard, webhook_id, hour, outcome, attempts, durations)
    select n.shard, n.webhook_id, n.hour, n.outcome, n.attempts, n.durations::bigint[]
    from unnest(
      ${rows.shard}::smallint[], ${rows.webhookId}::bigint[], ${rows.hour}::timestamptz[], ${rows.outcome}::text[],
      ${rows.attempts}::bigint[], ${rows.durations}::text[]
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
