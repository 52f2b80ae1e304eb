/** What PostgreSQL tells of the transactions that are open in our database. */
import type { Queryable } from './pool.ts';

/** Seconds; 0 where none is open. `ours`: of any process of Halcyon. */
export type TransactionAges = { oldestSeconds: number; oursSeconds: number };

/**
 * A transaction that stays open keeps dead rows from being removed, and then all that is looked for among them takes longer.
 * Of sessions of other users it is told to members of `pg_read_all_stats` alone. Reads shared memory, no table.
 */
export const readTransactionAges = async (sql: Queryable): Promise<TransactionAges> => {
  const [row] = await sql<TransactionAges[]>`
    select coalesce(max(age), 0)::float8 as "oldestSeconds",
      coalesce(max(age) filter (where application_name like 'halcyon%'), 0)::float8 as "oursSeconds"
    from (
      select application_name, extract(epoch from clock_timestamp() - xact_start) as age
      from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
    ) as session`;
  return row ?? { oldestSeconds: 0, oursSeconds: 0 };
};

/**
 * Transactions of any process of Halcyon that are open at this moment, by names of their own that PostgreSQL gives out once
 * while it runs (`virtualxid` of pg_locks: every transaction has one from its first moment on, before it takes a snapshot). The
 * caller's is not among them. What other programs do in our database is none of ours: a pg_dump may take hours.
 *
 * Ids of transactions would not do. A statement may have taken its snapshot long before it is given one, and between its end
 * and its commit it shows neither that snapshot nor an id that tells when it began.
 */
export const openTransactions = async (sql: Queryable): Promise<string[]> => {
  const rows = await sql<{ name: string }[]>`
    select l.virtualxid as name
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
      and a.datname = current_database() and a.application_name like 'halcyon%'`;
  return rows.map(({ name }) => name);
};

/** Whether one of these transactions is still open. */
export const isAnyOpen = async (sql: Queryable, names: readonly string[]): Promise<boolean> => {
  if (names.length === 0) return false;
  const rows = await sql`
    select from pg_locks
    where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualxid = any (${names}::text[]) limit 1`;
  return rows.length > 0;
};
