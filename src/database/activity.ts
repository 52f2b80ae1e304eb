/** What PostgreSQL tells of the transactions that are open in our database. */
import type { Sql } from './pool.ts';

/** Seconds; 0 where none is open. `ours`: of any process of Halcyon. */
export type TransactionAges = { oldestSeconds: number; oursSeconds: number };

/**
 * A transaction that stays open keeps dead rows from being removed, and then all that is looked for among them takes longer.
 * Of sessions of other users it is told to members of `pg_read_all_stats` alone. Reads shared memory, no table.
 */
export const readTransactionAges = async (sql: Sql): Promise<TransactionAges> => {
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
