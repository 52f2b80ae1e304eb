import type { Sql } from '#db/pool.ts';

/** Returns how many statements of this database currently wait for a row lock. */
export async function waitingForLocks(sql: Sql): Promise<number> {
  const waiting = await sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return waiting.length;
}
