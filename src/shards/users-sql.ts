/** The accounts of a database, which only a home database has. */
import type { Queryable } from '#db/pool.ts';

export async function hasUsers(sql: Queryable): Promise<boolean> {
  return (await sql`select from users limit 1`).length > 0;
}
