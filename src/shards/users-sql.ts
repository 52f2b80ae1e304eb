/** The accounts of a database, which only a home database has. */
import type { Queryable } from '#db/pool.ts';

/** Returns whether the database has an account. */
export async function hasUsers(sql: Queryable): Promise<boolean> {
  return (await sql`select from users limit 1`).length > 0;
}
