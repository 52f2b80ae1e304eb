/** SQL that reads the names which pages show in place of ids. */
import type { Queryable } from '#db/pool.ts';
import type { Names } from './changelog-sentence.ts';

type Store = { shard: number; storeId: number };

/** A store has at most 100 members. More apps than these are not in the choices of a filter. */
const APPS_MAX = 200;

/** Returns the members of the store, the apps with access to it or with one of these ids, and those of its webhooks. */
export async function findNames(
  sql: Queryable,
  { shard, storeId }: Store,
  { webhookIds, clientIds }: { webhookIds: readonly number[]; clientIds: readonly string[] },
): Promise<Names> {
  const [members, apps, webhooks] = await Promise.all([
    sql<{ id: number; email: string }[]>`
      select u.id, u.email from membership m join users u on u.id = m.user_id
      where m.shard = ${shard} and m.store_id = ${storeId} order by lower(u.email)`,
    sql<{ clientId: string; name: string }[]>`
      with connected as materialized (
        select distinct client from access_grant where store_id = ${storeId} and date_revoked is null limit ${APPS_MAX}
      )
      select c.client_id as "clientId", c.name from client c where c.client_id = any(${clientIds}::text[])
      union select c.client_id, c.name from connected join client c on c.id = connected.client
      order by name, "clientId"`,
    sql<{ id: number; name: string }[]>`
      select w.id, w.name from webhook w
      where w.shard = ${shard} and w.id = any(${webhookIds}::bigint[]) and w.store_id = ${storeId}`,
  ]);
  return {
    members: new Map(members.map(({ id, email }) => [id, email])),
    apps: new Map(apps.map(({ clientId, name }) => [clientId, name])),
    webhooks: new Map(webhooks.map(({ id, name }) => [id, name])),
  };
}

/** Returns the names of the store's webhooks by id; a store has at most 100. */
export async function findWebhookNames(
  sql: Queryable,
  { shard, storeId }: Store,
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: number; name: string }[]>`
    select id, name from webhook where shard = ${shard} and store_id = ${storeId} order by lower(name), id`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}
