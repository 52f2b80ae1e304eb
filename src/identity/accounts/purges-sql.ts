/**
 * SQL that deletes expired rows of accounts. Each statement selects its rows by an index, oldest first, into an array; with
 * a join, the planner may read the whole table. Locked rows are skipped and deleted by a later run.
 */
import type { Queryable } from '#db/pool.ts';

export async function deleteSessions(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from session where hash = any(array(
      select hash from session where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
}

export async function deletePasswordResets(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from password_reset where hash = any(array(
      select hash from password_reset where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
}

/** Deletes full buckets: a bucket without a row is full. */
export async function deleteFullBuckets(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from throttle where key = any(array(
      select key from throttle where full_at <= ${before}
      order by full_at limit ${limit} for update skip locked
    ))
  `;
  return count;
}

export async function deleteAuditEntries(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from audit where id = any(array(
      select id from audit where date_created <= ${before}
      order by date_created limit ${limit} for update skip locked
    ))
  `;
  return count;
}
