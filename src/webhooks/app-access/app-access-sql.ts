/** The statements that compare the webhooks of apps with the access of the apps. */
import type { Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';

/** An app, the user who granted it access (null for clients of the platform), and a store. */
export type Access = { client: number; userId: number | null; storeId: number };

/** Limits a statement to webhooks of an app, a user, a store. */
export type Scope = { client?: number | undefined; userId?: number | undefined; storeId?: number | null | undefined };

/**
 * The grants under which webhooks may send: those that the bearer check accepts, with full access or with the scope `webhooks`.
 */
const sendingGrants = (sql: Queryable) => sql`
  from access_grant g
  join client c on c.id = g.client and c.date_deleted is null
  join users u on u.id = g.user_id and u.date_disabled is null
  join membership m on m.user_id = u.id and (g.permissions is null or 'webhooks' = any(g.permissions))`;

/**
 * The condition that the app of the webhook `w` has access. A client of the platform has no grants: it has access while it
 * exists.
 */
const hasAccess = (sql: Queryable) => sql`
  case when w.user_id is null
    then exists (select from client c where c.id = w.client and c.date_deleted is null)
    else exists (
      select ${sendingGrants(sql)}
      where g.client = w.client and g.user_id = w.user_id and g.date_revoked is null
        and (g.store_id is null or g.store_id = w.store_id) and m.shard = w.shard and m.store_id = w.store_id)
  end`;

export type WebhookRef = { shard: number; id: number; storeId: number };

/**
 * Disables the active webhooks in the scope whose app no longer has access to their store, except those that the apps declare: they
 * are sent that the access ended. Locks the rows in the order of their
 * keys, so that two calls cannot deadlock.
 */
export function disableWithoutAccess(sql: Queryable, scope: Scope, now: Date): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  with stopping as (
    select w.shard, w.id from webhook w
    where w.client is not null and w.is_active and not w.is_for_app
      and ${scope.client === undefined ? sql`true` : sql`w.client = ${scope.client}`}
      and ${scope.userId === undefined ? sql`true` : sql`w.user_id = ${scope.userId}`}
      and ${scope.storeId == null ? sql`true` : sql`w.store_id = ${scope.storeId}`}
      and not ${hasAccess(sql)}
    order by w.shard, w.id for no key update of w
  )
  update webhook w
  set is_active = false, inactive_reason = 'access_ended', epoch = epoch + 1, revision = revision + 1, date_modified = ${now}
  from stopping
  where w.shard = stopping.shard and w.id = stopping.id and w.is_active
  returning w.shard, w.id, w.store_id as "storeId"`;
}

/**
 * Returns the user through whom an app has access to a store, preferably `userId`; undefined if it has none. Locks the access
 * until the transaction ends, the membership first, as the end of a membership does. `isSameUserOnly`: ignore grants of other users.
 */
export async function lockAccess(
  sql: Queryable,
  { client, userId, storeId }: Access,
  { isSameUserOnly }: { isSameUserOnly: boolean },
): Promise<{ userId: number | null } | undefined> {
  const [row] =
    userId === null
      ? await sql<{ userId: null }[]>`
        select null::bigint as "userId" from client where id = ${client} and date_deleted is null for share`
      : await sql<{ userId: number }[]>`
        select g.user_id as "userId" ${sendingGrants(sql)}
        where g.client = ${client} and g.date_revoked is null and (g.store_id is null or g.store_id = ${storeId})
          and m.shard = ${shardOf(storeId)} and m.store_id = ${storeId} and (g.user_id = ${userId} or not ${isSameUserOnly})
        order by g.user_id = ${userId} desc, g.id limit 1
        for share of m for share of g, c, u`;
  return row;
}

/** Returns, for each store, how many webhooks of an app are disabled because its access ended. */
export function countStopped(
  sql: Queryable,
  client: number,
  storeIds: readonly number[],
): Promise<{ storeId: number; count: number }[]> {
  return sql<{ storeId: number; count: number }[]>`
  select store_id as "storeId", count(*) from webhook
  where client = ${client} and store_id = any(${storeIds}::bigint[]) and not is_held and inactive_reason = 'access_ended'
  group by store_id`;
}

/** Enables the webhooks that were disabled when the app's access ended, and assigns them to `userId`. */
export function resumeStopped(
  sql: Queryable,
  { client, userId, storeIds }: { client: number; userId: number; storeIds: readonly number[] },
  now: Date,
): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  with resuming as (
    select shard, id from webhook
    where client = ${client} and store_id = any(${storeIds}::bigint[]) and not is_held and inactive_reason = 'access_ended'
    order by shard, id for no key update
  )
  update webhook w
  set is_active = true, inactive_reason = null, user_id = ${userId}, revision = revision + 1, date_modified = ${now}
  from resuming
  where w.shard = resuming.shard and w.id = resuming.id
  returning w.shard, w.id, w.store_id as "storeId"`;
}
