import type { Queryable } from '#db/pool.ts';

/** Attempts of webhooks, by the hour in which they began and by how they ended. */
export type HourColumns = {
  shard: number[];
  webhookId: number[];
  hour: Date[];
  outcome: string[];
  attempts: number[];
  /** Each a histogram, as PostgreSQL writes an array: an array of arrays would come apart in `unnest`. */
  durations: string[];
};

/** Adds to what is there. In the order of the key, so that two workers who add for a shard that changed hands never wait in a circle. */
export const addHours = async (sql: Queryable, rows: HourColumns): Promise<void> => {
  await sql`
    insert into webhook_hour as t (shard, webhook_id, hour, outcome, attempts, durations)
    select n.shard, n.webhook_id, n.hour, n.outcome, n.attempts, n.durations::bigint[]
    from unnest(
      ${rows.shard}::smallint[], ${rows.webhookId}::bigint[], ${rows.hour}::timestamptz[], ${rows.outcome}::text[],
      ${rows.attempts}::bigint[], ${rows.durations}::text[]
    ) as n (shard, webhook_id, hour, outcome, attempts, durations)
    order by n.shard, n.webhook_id, n.hour, n.outcome
    on conflict (shard, webhook_id, hour, outcome) do update set
      attempts = t.attempts + excluded.attempts,
      durations = array(
        select coalesce(d.before, 0) + coalesce(d.added, 0)
        from unnest(t.durations, excluded.durations) with ordinality as d (before, added, bucket)
        order by d.bucket)`;
};

/** Those of deleted webhooks among them: nobody is shown them any more. */
export const purgeHours = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from webhook_hour where ctid = any(array(
      select ctid from webhook_hour where hour < ${before} order by hour limit ${limit} for update skip locked
    ))`;
  return count;
};
