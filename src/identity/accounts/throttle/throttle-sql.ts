/** SQL of throttling. Writes the table throttle; accounts/purges-sql.ts deletes full buckets. */
import type { Queryable } from '#db/pool.ts';

export type KeyedBucket = { key: Buffer; tries: number; refillSeconds: number };

/**
 * Takes one try. Returns false, and writes nothing, if the bucket is empty; concurrent calls cannot take more than it
 * contains.
 */
export async function takeOne(sql: Queryable, bucket: KeyedBucket, now: Date): Promise<boolean> {
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
}

/** Returns when the bucket will be full again; undefined if it is full. */
export async function fullAt(sql: Queryable, { key }: KeyedBucket): Promise<Date | undefined> {
  const [row] = await sql<{ fullAt: Date }[]>`select full_at as "fullAt" from throttle where key = ${key}`;
  return row?.fullAt;
}

export async function giveBack(sql: Queryable, { key, refillSeconds }: KeyedBucket): Promise<void> {
  await sql`
    update throttle set full_at = full_at - make_interval(secs => ${refillSeconds}) where key = ${key}
  `;
}
