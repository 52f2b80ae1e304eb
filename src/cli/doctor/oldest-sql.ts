/** The statements of `doctor` about rows that have expired. */
import type { Queryable } from '#db/pool.ts';

/** Returns the first dates on which a token and a response for an `Idempotency-Key` expired or were stored; each reads one index entry. */
export async function listOldestExpired(sql: Queryable): Promise<Date[]> {
  const rows = await sql<{ at: Date | null }[]>`
    select min(date_expires) as at from access_token union all select min(date_created) from idempotency_key`;
  return rows.flatMap(({ at }) => at ?? []);
}
