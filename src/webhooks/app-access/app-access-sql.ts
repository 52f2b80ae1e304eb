/** The access of apps to stores: under which grants their webhooks may send, and the scopes of all grants together. */
import { LOCKS } from '#db/advisory-lock.ts';
import { oneOf, type Queryable } from '#db/pool.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import type { Declaration } from './declared.ts';

/** An app, the user who granted it access (null for clients of the platform, which have no grants), and a store. */
export type Access = { client: number; userId: number | null; storeId: number };
/** The same of a webhook; `client` is null for one of a person. */
export type AccessOfWebhook = Omit<Access, 'client'> & { client: number | null };

/** Limits a statement to webhooks of an app, a user, a store. */
export type Scope = { client?: number | undefined; userId?: number | undefined; storeId?: number | null | undefined };

/** Returns whether the scope is all webhooks of a store. */
export function isOfStore<Of extends Scope>(scope: Of): scope is Of & { storeId: number } {
  return scope.client === undefined && scope.userId === undefined && scope.storeId != null;
}

/** The apps that a scope concerns by their grants, and its stores (undefined: all), as they were when the access changed. */
export type Reach = { apps: readonly number[]; stores: readonly number[] | undefined };

/**
 * The grants under which webhooks may send: those that the bearer check accepts, with full access or with the scope `webhooks`.
 */
const sendingGrants = (sql: Queryable) => sql`
  from access_grant g
  join client c on c.id = g.client and c.date_deleted is null
  join users u on u.id = g.user_id and u.date_disabled is null
  join membership m on m.user_id = u.id and (g.permissions is null or 'webhooks' = any(g.permissions))`;

/** A page of stores, in the order of shard and id. */
export type StorePage = { after: StoreKey; limit: number };

/** What the app of a webhook has in its store; `suspended` if the app or the store is, whatever its grants are. */
export type Standing = 'access' | 'none' | 'suspended';

/**
 * Returns what the apps of these webhooks have, in their order: access under a grant of the user, or, for a client of the platform, while it
 * exists. A webhook of a person has access.
 */
export async function listStandings(sql: Queryable, webhooks: readonly AccessOfWebhook[]): Promise<Standing[]> {
  const rows = await sql<{ standing: Standing }[]>`
  select case when a.is_suspended then 'suspended' when a.has_access then 'access' else 'none' end as standing
  from unnest(
    ${webhooks.map(({ client }) => client)}::bigint[], ${webhooks.map(({ userId }) => userId)}::bigint[],
    ${webhooks.map(({ storeId }) => storeId)}::bigint[]
  ) with ordinality as w (client, user_id, store_id, at)
  cross join lateral (
    select exists (select from client c where c.id = w.client and c.suspended_reason is not null)
      or exists (select from store s where s.shard = w.store_id % 256 and s.id = w.store_id and s.suspended_reason is not null)
        as is_suspended,
      case when w.client is null then true when w.user_id is null
        then exists (select from client c where c.id = w.client and c.date_deleted is null)
        else exists (
          select ${sendingGrants(sql)}
          where g.client = w.client and g.user_id = w.user_id and g.date_revoked is null
            and (g.store_id is null or g.store_id = w.store_id) and m.shard = w.store_id % 256 and m.store_id = w.store_id)
      end as has_access
  ) as a
  order by w.at`;
  return rows.map(({ standing }) => standing);
}

/** Returns why apps are suspended, without those that are not, and locks all of them against a suspension until the transaction ends. */
export async function lockSuspensions(
  sql: Queryable,
  clients: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ client: number; reason: string | null }[]>`
    select id as client, suspended_reason as reason from client where id = any(${clients}::bigint[]) order by id for share`;
  return new Map(rows.flatMap(({ client, reason }) => (reason === null ? [] : [[client, reason] as const])));
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

/** An app with what it declares. `client` is its internal id. */
export type DeclaringApp = Declaration & { client: number; clientId: string; name: string };

/** Returns the ids of the apps in the scope. The grants of a user name its apps even after they have ended. */
export async function listAppsOf(sql: Queryable, { client, userId }: Scope): Promise<number[]> {
  if (client !== undefined) return [client];
  const rows = await sql<{ client: number }[]>`
    select distinct client from access_grant where user_id = ${userId ?? null} order by client`;
  return rows.map((row) => row.client);
}

/**
 * Locks the apps against their suspension, and against other changes of their access, of their webhooks and of what they declare, until the
 * transaction ends. Two changes at once would not see each other's grants and new webhooks.
 */
export async function lockApps(sql: Queryable, apps: readonly number[]): Promise<void> {
  await sql`
  select pg_advisory_xact_lock(${LOCKS.accessOfApp}, hashint8(c.id))
  from (select id from client where id = any(${apps}::bigint[]) order by id for share) as c`;
}

/** Locks the apps of the scope, or `apps`, and returns those of them that declare a webhook and are not suspended. */
export async function findDeclaring(sql: Queryable, scope: Scope, apps?: readonly number[]): Promise<DeclaringApp[]> {
  const ids = apps ?? (await listAppsOf(sql, scope));
  await lockApps(sql, ids);
  // A statement of its own: the declaration may have changed while the apps were being locked.
  return sql<DeclaringApp[]>`
  select a.client, c.client_id as "clientId", c.name, a.url, a.events, a.query, a.filter
  from app_webhook a join client c on c.id = a.client and c.suspended_reason is null
  where a.client = any(${ids}::bigint[]) and a.url is not null
  order by a.client`;
}

/** Returns the names of an app; undefined if it no longer exists. */
export async function readClient(
  sql: Queryable,
  client: number,
): Promise<{ clientId: string; name: string; isSuspended: boolean } | undefined> {
  const [row] = await sql<{ clientId: string; name: string; isSuspended: boolean }[]>`
    select client_id as "clientId", name, suspended_reason is not null as "isSuspended" from client where id = ${client}`;
  return row;
}

/** Returns the `client_id` of each of these apps; those that no longer exist are absent from the map. */
export async function readClientIds(sql: Queryable, clients: readonly number[]): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ client: number; clientId: string }[]>`
  select id as client, client_id as "clientId" from client where id = any(${clients}::bigint[])`;
  return new Map(rows.map(({ client, clientId }) => [client, clientId]));
}

/** Returns the stores that the apps have access to in the scope, each with one of the users who gave it, by app and store. */
export function listInstalled(
  sql: Queryable,
  apps: readonly DeclaringApp[],
  { userId, storeId, reach }: Scope & { reach?: Reach | undefined },
): Promise<{ client: number; storeId: number; userId: number }[]> {
  return sql<{ client: number; storeId: number; userId: number }[]>`
  select g.client, m.store_id as "storeId", min(g.user_id) as "userId"
  from access_grant g join membership m on m.user_id = g.user_id and (g.store_id is null or g.store_id = m.store_id)
  where g.client = any(${apps.map(({ client }) => client)}::bigint[]) and g.date_revoked is null
    and ${userId === undefined ? sql`true` : sql`g.user_id = ${userId}`}
    and ${storeId == null ? sql`true` : sql`m.store_id = ${storeId}`}
    and ${reach?.stores === undefined ? sql`true` : sql`m.store_id = any(${reach.stores}::bigint[])`}
  group by g.client, m.shard, m.store_id
  order by g.client, m.shard, m.store_id`;
}

/** A grant that a member has given to an app for a store. `clientId`: that of addresses. */
export type MemberGrant = { grantId: number; clientId: string; storeId: number };

/** Returns, in their order, whether the app of each grant has another one for the same store. */
export async function listInstalledByMembers(home: Queryable, grants: readonly MemberGrant[]): Promise<boolean[]> {
  const rows = await home<{ isInstalled: boolean }[]>`
  select exists (
    select from client c join access_grant g on g.client = c.id
    where c.client_id = p.client_id and c.date_deleted is null and g.store_id = p.store_id and g.date_revoked is null
      and g.id <> p.grant_id
  ) as "isInstalled"
  from unnest(
    ${grants.map(({ clientId }) => clientId)}::text[], ${grants.map(({ storeId }) => storeId)}::bigint[],
    ${grants.map(({ grantId }) => grantId)}::bigint[]
  ) with ordinality as p (client_id, store_id, grant_id, at)
  order by p.at`;
  return rows.map(({ isInstalled }) => isInstalled);
}

/** The memberships `m` by whose users an app has access to stores in these shards. */
const grantsIn = (sql: Queryable, client: number, shards: readonly number[]) => sql`
  from access_grant g join membership m on m.user_id = g.user_id and (g.store_id is null or g.store_id = m.store_id)
  where g.client = ${client} and g.date_revoked is null and m.shard = any(${shards}::smallint[])`;

/** Returns the number of stores in these shards that an app has access to. */
export async function countInstalledStores(sql: Queryable, client: number, shards: readonly number[]): Promise<number> {
  const { total } = await oneOf(sql<{ total: number }[]>`
    select count(*) as total from (select distinct m.shard, m.store_id ${grantsIn(sql, client, shards)}) as s`);
  return total;
}

/** Returns the next stores in these shards that an app has access to, by shard and id. */
export async function listInstalledStores(
  sql: Queryable,
  client: number,
  shards: readonly number[],
  { after, limit }: StorePage,
): Promise<number[]> {
  const rows = await sql<{ shard: number; id: number }[]>`
  select distinct m.shard, m.store_id as id ${grantsIn(sql, client, shards)}
    and (m.shard, m.store_id) > (${after.shard}::smallint, ${after.storeId}::bigint)
  order by m.shard, m.store_id limit ${limit}`;
  return rows.map(({ id }) => id);
}

/** Returns the stores of a user. */
export async function listStoresOf(sql: Queryable, userId: number): Promise<number[]> {
  const rows = await sql<{ storeId: number }[]>`select store_id as "storeId" from membership where user_id = ${userId}`;
  return rows.map(({ storeId }) => storeId);
}

/** Returns the scope of all grants of each app in its store, in the order of the pairs; null if there are none. */
export async function listScopes(
  sql: Queryable,
  pairs: readonly { client: number; storeId: number }[],
): Promise<(string | null)[]> {
  const rows = await sql<{ scope: string | null }[]>`
  select g.scope
  from unnest(
    ${pairs.map(({ client }) => client)}::bigint[], ${pairs.map(({ storeId }) => storeId)}::bigint[]
  ) with ordinality as i (client, store_id, at)
  cross join lateral (
    select case when bool_or(g.store_id is null) then 'user_full_access' when bool_or(g.permissions is null) then 'store_full_access'
      else string_agg(distinct p.name, ' ' order by p.name) end as scope
    from client c
    join membership m on m.shard = i.store_id % 256 and m.store_id = i.store_id
    join users u on u.id = m.user_id and u.date_disabled is null
    cross join lateral (select * from access_grant where user_id = m.user_id offset 0) as g
    left join lateral unnest(g.permissions) as p (name) on true
    where c.id = i.client and c.date_deleted is null and g.client = i.client and g.date_revoked is null
      and (g.store_id is null or g.store_id = i.store_id)
  ) as g
  order by i.at`;
  return rows.map(({ scope }) => scope);
}
