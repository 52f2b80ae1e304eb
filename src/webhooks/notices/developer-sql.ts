/** The addresses of developers: of the app that created a webhook, and of a sandbox store. */
import type { Queryable } from '#db/pool.ts';

/** `developer`: the verified e-mail address of its owner; null if it belongs to the operator. */
export type App = { clientId: string; name: string; developer: string | null };

/** Returns the app that created a webhook; null if none did, or if its access to the store has ended. */
export async function findApp(
  sql: Queryable,
  { client, userId, storeId }: { client: number | null; userId: number | null; storeId: number },
): Promise<App | null> {
  if (client === null) return null;
  const [app] = await sql<App[]>`
    select c.client_id as "clientId", c.name, u.email as developer
    from client c left join users u on u.id = c.owner and u.is_email_verified and u.date_disabled is null
    where c.id = ${client} and c.date_deleted is null and exists (
      select from access_grant g
      where g.client = ${client} and g.user_id = ${userId} and g.date_revoked is null
        and (g.store_id is null or g.store_id = ${storeId})
    )`;
  return app ?? null;
}

/** Returns the verified address of a user; empty without one. */
export async function findAddress(sql: Queryable, userId: number): Promise<string> {
  const [row] = await sql<{ email: string }[]>`
    select email from users where id = ${userId} and is_email_verified and date_disabled is null`;
  return row?.email ?? '';
}
