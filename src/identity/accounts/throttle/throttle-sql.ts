/** The statements of throttling: the table throttle is written here; what has had its time is deleted in identity/accounts/. */
import type { Queryable } from '#db/pool.ts';

export type AskedBucket = { key: Buffer; tries: number; refillSeconds: number };

/** Takes one out; false, with nothing written, where the bucket is empty. Of any number at once no more than it holds. */
export const takeOne = async (sql: Queryable, bucket: AskedBucket, now: Date): Promise<boolean> => {
  const { key, tries, refillSeconds } = bucket;
  const rows = await sql`
    insert into throttle (key, full_at)
    values (${key}, ${now}::timestamptz + make_interval(secs => ${refillSeconds}))
    on conflict (key) do update
      set full_at = greatest(throttle.full_at, ${now}) + make_interval(secs => ${refillSeconds})
      where greatest(throttle.full_at, ${now}) + make_interval(secs => ${refillSeconds})
        <= ${now}::timestamptz + make_interval(secs => ${refillSeconds * tries})
    returning key
  `;
  return rows.length > 0;
};

/** When the bucket will be full again; undefined where it is. */
export const fullAt = async (sql: Queryable, { key }: AskedBucket): Promise<Date | undefined> => {
  const [row] = await sql<{ fullAt: Date }[]>`select full_at as "fullAt" from throttle where key = ${key}`;
  return row?.fullAt;
};

export const giveBack = async (sql: Queryable, { key, refillSeconds }: AskedBucket): Promise<void> => {
  await sql`
    update throttle set full_at = full_at - make_interval(secs => ${refillSeconds}) where key = ${key}
  `;
};
