/** The statements that erase what a user has let in. */
import type { Queryable } from '#database/pool.ts';

/** What is made meanwhile goes with its grant. */
export const deleteTokensOf = async (sql: Queryable, userId: number): Promise<void> => {
  const grants = sql`select id from access_grant where user_id = ${userId}`;
  await sql`delete from authorization_code where grant_id in (${grants})`;
  await sql`delete from refresh_token where grant_id in (${grants})`;
  await sql`delete from access_token where grant_id in (${grants})`;
};
