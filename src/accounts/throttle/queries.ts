/** The statements of throttling: the table throttle is written here and nowhere else. */
import type { Queryable } from '#database/pool.ts';

export type AskedBucket = { key: Buffer; tries: number; refillSeconds: number };

/** Whether one was taken from each bucket, and where not, how long until one is there. */
export const takeOne = (
  sql: Queryable,
  buckets: readonly AskedBucket[],
  now: Date,
): Promise<{ taken: boolean; waitSeconds: number }[]> => sql<{ taken: boolean; waitSeconds: number }[]>`
  with asked as (
    select key, make_interval(secs => refill) as refill, make_interval(secs => refill * tries) as whole
    from unnest(${buckets.map(({ key }) => key)}::bytea[], ${buckets.map(({ refillSeconds }) => refillSeconds)}::int[],
      ${buckets.map(({ tries }) => tries)}::int[]) as asked (key, refill, tries)
  ), taken as (
    insert into throttle (key, full_at)
    -- In one order everywhere, so that two requests never wait for each other.
    select key, ${now}::timestamptz + refill from asked order by key
    on conflict (key) do update
      set full_at = greatest(throttle.full_at, ${now}) + (select refill from asked where asked.key = throttle.key)
      where greatest(throttle.full_at, ${now}) + (select refill - whole from asked where asked.key = throttle.key)
        <= ${now}
    returning key
  )
  select taken.key is not null as taken,
    coalesce(extract(epoch from throttle.full_at + asked.refill - asked.whole - ${now}::timestamptz), 0)::float8
      as "waitSeconds"
  from asked left join taken on taken.key = asked.key left join throttle on throttle.key = asked.key
`;

export const giveBack = async (sql: Queryable, buckets: readonly AskedBucket[]): Promise<void> => {
  await sql`
    update throttle set full_at = full_at - make_interval(secs => asked.refill)
    from unnest(${buckets.map(({ key }) => key)}::bytea[], ${buckets.map(({ refillSeconds }) => refillSeconds)}::int[])
      as asked (key, refill)
    where throttle.key = asked.key
  `;
};
