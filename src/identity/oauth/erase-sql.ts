/** The statements that erase what a user has let in. */
import type { Queryable } from '#db/pool.ts';

/** The apps that a user has made or let in, kept until the transaction ends; in the order of their ids, so that nobody waits in a circle. */
export const lockClientsAround = async (sql: Queryable, userId: number): Promise<void> => {
  await sql`
    select from client where id = any(array(
      select id from client where owner = ${userId}
      union
      select client from access_grant where user_id = ${userId}
    ))
    order by id for no key update
  `;
};

/** What is made meanwhile goes with its grant. */
export const deleteTokensOf = async (sql: Queryable, userId: number): Promise<void> => {
  const grants = sql`select id from access_grant where user_id = ${userId}`;
  await sql`delete from authorization_code where grant_id in (${grants})`;
  await sql`delete from refresh_token where grant_id in (${grants})`;
  await sql`delete from access_token where grant_id in (${grants})`;
};
