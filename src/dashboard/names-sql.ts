/** SQL that reads the names of members and apps which pages show in place of ids. */
import type { Queryable } from '#db/pool.ts';
import type { Names } from './changelog-page.ts';
import { findWebhookNames } from './lists-sql.ts';
import type { StoreKey } from '#core/ids.ts';

/** A store has at most 100 members. More apps than these are not in the choices of a filter. */
const APPS_MAX = 200;

/** Returns the members of the store, the apps with access to it or with one of these ids, and those of its webhooks. */
export async function findNames(
  { sql, accounts }: { sql: Queryable; accounts: Queryable },
  { shard, storeId }: StoreKey,
  { webhookIds, clientIds }: { webhookIds: readonly number[]; clientIds: readonly string[] },
): Promise<Names> {
  const [members, apps, webhooks] = await Promise.all([
    accounts<{ id: number; email: string }[]>`
      select u.id, u.email from membership m join users u on u.id = m.user_id
      where m.shard = ${shard} and m.store_id = ${storeId} order by u.email`,
    accounts<{ clientId: string; name: string }[]>`
      with connected as materialized (
        select distinct client from access_grant where store_id = ${storeId} and date_revoked is null limit ${APPS_MAX}
      )
      select c.client_id as "clientId", c.name from client c where c.client_id = any(${clientIds}::text[])
      union select c.client_id, c.name from connected join client c on c.id = connected.client
      order by name, "clientId"`,
    findWebhookNames(sql, { shard, storeId }, webhookIds),
  ]);
  return {
    members: new Map(members.map(({ id, email }) => [id, email])),
    apps: new Map(apps.map(({ clientId, name }) => [clientId, name])),
    webhooks,
  };
}
