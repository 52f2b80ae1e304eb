import type { Sql } from '#db/pool.ts';

/** How many statements of this database wait at this moment for a row that somebody else holds. */
export const waitingForLocks = async (sql: Sql): Promise<number> => {
  const waiting = await sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return waiting.length;
};
