/** SQL of the erasure of a user's grants and tokens. */
import type { Queryable } from '#db/pool.ts';

/** Locks the apps that a user owns or has connected, in the order of their ids to avoid deadlocks. */
export async function lockClientsOfUser(sql: Queryable, userId: number): Promise<void> {
  await sql`
    select from client where id = any(array(
      select id from client where owner = ${userId}
      union
      select client from access_grant where user_id = ${userId}
    ))
    order by id for no key update
  `;
}

/** Deletes the codes and tokens of a user's grants. Tokens issued concurrently are deleted with their grant. */
export async function deleteTokensOf(sql: Queryable, userId: number): Promise<void> {
  const grants = sql`select id from access_grant where user_id = ${userId}`;
  await sql`delete from authorization_code where grant_id in (${grants})`;
  await sql`delete from refresh_token where grant_id in (${grants})`;
  await sql`delete from access_token where grant_id in (${grants})`;
}
