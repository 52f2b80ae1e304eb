/** Reads the open transactions of this database from PostgreSQL's activity views. */
import type { Queryable } from './pool.ts';

/** Rejects unless the server responds. */
export async function ping(sql: Queryable): Promise<void> {
  await sql`select 1`;
}

/** Ages in seconds, 0 without an open transaction. `halcyonSeconds` covers sessions whose application name begins with `halcyon`. */
export type TransactionAges = { oldestSeconds: number; halcyonSeconds: number };

/**
 * Returns the ages of the oldest open transactions. A long transaction prevents the removal of dead rows, which slows down all
 * index scans. Sessions of other users are visible only to members of `pg_read_all_stats`. Reads shared memory, no table.
 */
export async function readTransactionAges(sql: Queryable): Promise<TransactionAges> {
  const [row] = await sql<TransactionAges[]>`
    select coalesce(max(age), 0)::float8 as "oldestSeconds",
      coalesce(max(age) filter (where application_name like 'halcyon%'), 0)::float8 as "halcyonSeconds"
    from (
      select application_name, extract(epoch from clock_timestamp() - xact_start) as age
      from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
    ) as session`;
  return row ?? { oldestSeconds: 0, halcyonSeconds: 0 };
}

/**
 * Returns the virtual transaction ids (`virtualxid` in pg_locks) of the open transactions of all Halcyon processes, without the
 * caller's. Every transaction has one from its start, before it takes a snapshot, and none is reused while the server runs.
 * Other programs are excluded: a pg_dump may take hours.
 *
 * Transaction ids are not sufficient: a statement may take its snapshot long before it gets one, and between its end and its
 * commit neither the snapshot nor the id shows when it began.
 */
export async function openTransactions(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select l.virtualxid as name
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
      and a.datname = current_database() and a.application_name like 'halcyon%'`;
  return rows.map(({ name }) => name);
}

/** Returns whether one of these transactions is still open. */
export async function isAnyOpen(sql: Queryable, names: readonly string[]): Promise<boolean> {
  if (names.length === 0) return false;
  const rows = await sql`
    select from pg_locks
    where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualxid = any (${names}::text[]) limit 1`;
  return rows.length > 0;
}
