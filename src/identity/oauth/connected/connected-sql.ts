/** SQL of connected apps: the grants of a user, and those by which the members of a store let apps in. */
import { firstOf, hasRows, totalOf, type Queryable } from '#db/pool.ts';
import type { Permission } from '#core/principal.ts';
import { grantFields, type LoggedGrant } from '../grants.ts';
import type { Ended } from '../oauth-sql.ts';
import { allPermissions } from '../scope.ts';
import { inAvailable, type EachDatabase } from '#shards/map.ts';
import { countCreated } from '../webhooks-of-apps-sql.ts';
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';

/** The id is that of the latest grant of this user to this client, for this store or the account, which represents all of them. */
type GrantRow = RowOf<typeof grantFields> & {
  /** The internal id of the client. */
  client: number;
  logoDate: Date | null;
  /** The limited scopes of all the grants; null if one of them has full access. */
  permissions: Permission[] | null;
  /** The owner of the app; null if the operator created it. */
  ownerId: number | null;
  email: string;
};

type ConnectedRow = GrantRow & {
  /** Null for an account grant, or if the store no longer exists. */
  storeName: string | null;
  /** Whether the user is a member of the store; otherwise the grant gives no access. */
  isMember: boolean;
  /** The app declares a webhook for all its stores. */
  declares: boolean;
  isSuspended: boolean;
};

/** Webhooks that the app created for the user in the stores of the grant. */
type AppWebhooks = {
  total: number;
  active: number;
  /** The active ones that the end of the grant disables: the app has no other access to their stores by this user. */
  stopping: number;
};

export type ConnectedApp = ConnectedRow & { webhooks: AppWebhooks };

/** Selects active grants of a user: all, those of one client, or those of one client for one store (null: the account). */
export type GrantFilter = { userId: number; client?: number | undefined; storeId?: number | null | undefined };

const isSelected = (sql: Queryable, { userId, client, storeId }: GrantFilter) => sql`
  user_id = ${userId} and date_revoked is null
    and ${client === undefined ? sql`true` : sql`client = ${client}`}
    and ${storeId === undefined ? sql`true` : sql`store_id is not distinct from ${storeId}`}`;

/** The limited scopes of the grants of a group `g`, separated by spaces and with repetitions; null if one has full access. */
export function limitedScopes(sql: Queryable) {
  return sql`case when bool_and(g.permissions is not null) then string_agg(array_to_string(g.permissions, ' '), ' ') end`;
}

/** The scope of a group of grants, as `scopeOfGrants`: in the order of the list, without repetition. */
export function scopeText(sql: Queryable) {
  return sql`case when g.store_id is null then 'user_full_access' when g.limited is null then 'store_full_access'
    else array_to_string(array(select p from unnest(${allPermissions()}::text[]) p where p = any(string_to_array(g.limited, ' '))),
      ' ') end`;
}

/** Returns the columns of a group of grants `g` of one user to one client, for a store or the account. It ends when its last grant does. */
const grouped = (sql: Queryable) => sql`
  g.client, g.user_id, g.store_id, max(g.id) as grant_id, min(g.date_created) as since, max(g.date_used) as last_used,
  ${limitedScopes(sql)} as limited, case when bool_and(g.date_ends is not null) then max(g.date_ends) end as ends`;

/** Returns the joins of a group of grants `g` to its client `c`, user `u` and logo `l`. */
const parties = (sql: Queryable) => sql`
  join client c on c.id = g.client and c.date_deleted is null
  join users u on u.id = g.user_id
  left join client_logo l on l.client = c.id`;

/** Returns the `from` clause of connected apps: one row per client and store, even with several grants. */
function connectedApps(sql: Queryable, filter: GrantFilter) {
  return sql`
  from (
    select ${grouped(sql)} from access_grant g where ${isSelected(sql, filter)} group by client, user_id, store_id
  ) as g ${parties(sql)}
    left join store s on s.shard = g.store_id % 256 and s.id = g.store_id
    left join membership m on m.shard = s.shard and m.store_id = s.id and m.user_id = ${filter.userId}`;
}

const columns = columnsOf(grantFields, 'g');

/** Returns the expressions of the properties of a grant, of the group `g` and the client `c`. */
function grantExpressions(sql: Queryable) {
  return {
    id: sql`g.grant_id`,
    user_id: sql`g.user_id`,
    client_id: sql`c.client_id`,
    name: sql`c.name`,
    company: sql`c.company`,
    is_verified: sql`c.is_verified`,
    scope: scopeText(sql),
    store_id: sql`g.store_id`,
    date_created: sql`g.since`,
    date_used: sql`g.last_used`,
    date_ends: sql`g.ends`,
  };
}

/** Returns the columns of `GrantRow`. */
const selected = (sql: Queryable) => sql`
  ${columns.selected(sql, grantExpressions(sql))}, g.client, l.date_modified as "logoDate", c.owner as "ownerId",
  string_to_array(g.limited, ' ') as permissions, u.email`;

/** Returns the statement up to its conditions and order, which follow. */
const connected = (sql: Queryable, filter: GrantFilter) => sql`
  select ${selected(sql)}, s.name as "storeName", m.user_id is not null as "isMember",
    exists (select from app_webhook a where a.client = g.client and a.url is not null) as declares, c.suspended_reason is not null as "isSuspended"
  ${connectedApps(sql, filter)}`;

type Access = { client: number; storeId: number | null };

/** Returns the access under which webhooks may send. */
function listAccess(sql: Queryable, userId: number, clients: readonly number[]): Promise<Access[]> {
  return sql<Access[]>`
  select distinct client, store_id as "storeId" from access_grant
  where client = any(${clients}::bigint[]) and user_id = ${userId} and date_revoked is null
    and (permissions is null or 'webhooks' = any(permissions))`;
}

const keyOf = ({ client, storeId }: Access): string => `${client} ${storeId ?? ''}`;

/**
 * Returns the rows with the webhooks of their apps. Counts and access are combined here: as a join, PostgreSQL compared each webhook
 * with each grant of the user, which took 2 to 12 s for an app in 3,000 stores.
 */
async function withWebhooks(
  sql: Queryable,
  each: EachDatabase,
  userId: number,
  rows: readonly ConnectedRow[],
): Promise<ConnectedApp[]> {
  const clients = [...new Set(rows.map(({ client }) => client))];
  const created =
    clients.length === 0 ? [] : await inAvailable(each, (database) => countCreated(database, userId, clients));
  const creators = [...new Set(created.map(({ client }) => client))];
  const access = creators.length === 0 ? [] : await listAccess(sql, userId, creators);
  const granted = new Set(access.map(keyOf));
  const byClient = Map.groupBy(created, ({ client }) => client);
  const byStore = Map.groupBy(created, keyOf);
  return rows.map((row) => {
    const isOfAccount = row.storeId === null;
    const own = (isOfAccount ? byClient.get(row.client) : byStore.get(keyOf(row))) ?? [];
    const webhooks = { total: 0, active: 0, stopping: 0 };
    for (const { storeId, total, active } of own) {
      const isKept = granted.has(keyOf({ client: row.client, storeId: isOfAccount ? storeId : null }));
      webhooks.total += total;
      webhooks.active += active;
      webhooks.stopping += isKept ? 0 : active;
    }
    return { ...row, webhooks };
  });
}

/** Returns the connected apps of a user, by name. */
export async function listConnected(sql: Queryable, each: EachDatabase, userId: number): Promise<ConnectedApp[]> {
  const rows = await sql<ConnectedRow[]>`
  ${connected(sql, { userId })} order by c.name, s.name, g.grant_id
`;
  return withWebhooks(sql, each, userId, rows);
}

/**
 * Revokes a user's grants. It locks the clients first, because deleting a client ends all its grants by one row, and a grant must not be
 * ended twice. Grants are locked in the order of their ids, as everywhere, to avoid deadlocks.
 */
export function revokeGrants(sql: Queryable, which: GrantFilter, now: Date): Promise<LoggedGrant[]> {
  const live = isSelected(sql, which);
  return sql<LoggedGrant[]>`
    with locked as (
      select id as locked_id, client_id, name from client
      where id in (select client from access_grant where ${live}) and date_deleted is null
      order by id for share
    ), ending as (
      select id as ending_id, locked.* from access_grant join locked on client = locked_id
      where ${live}
      order by id for no key update of access_grant
    )
    update access_grant g set date_revoked = ${now} from ending
    where g.id = ending_id and date_revoked is null
    returning g.id as "grantId", user_id as "userId", store_id as "storeId", permissions, client,
      client_id as "clientId", name
  `;
}

/** Locks the clients with a grant of a user for a store, in the order of their ids, until the transaction ends. */
export async function lockClientsOfMember(
  sql: Queryable,
  { userId, storeId }: { userId: number; storeId: number },
): Promise<void> {
  await sql`
    select from client where id = any(array(
      select client from access_grant where user_id = ${userId} and store_id = ${storeId} and date_revoked is null
    ))
    order by id for share
  `;
}

/** Revokes all grants for one store, locked in the order of their ids. */
export function revokeGrantsFor(sql: Queryable, storeId: number, now: Date): Promise<Ended[]> {
  return sql<Ended[]>`
  with ending as (
    select id as ending_id from access_grant where store_id = ${storeId} and date_revoked is null
    order by id for no key update
  )
  update access_grant set date_revoked = ${now} from ending
  where id = ending_id and date_revoked is null
  returning client, store_id as "storeId", user_id as "userId"
`;
}

export async function listGrants(
  sql: Queryable,
  each: EachDatabase,
  filter: GrantFilter,
  listing: Listing,
): Promise<ConnectedApp[]> {
  const compared = columns.compared(sql, grantExpressions(sql));
  const rows = await sql<ConnectedRow[]>`
    ${connected(sql, filter)}
    where true${narrowed(sql, listing.filters, compared)}
    order by ${ordered(sql, listing.order, compared, [sql`g.grant_id`])} ${paged(sql, listing)}
  `;
  return withWebhooks(sql, each, filter.userId, rows);
}

export function countGrants(sql: Queryable, filter: GrantFilter, { filters }: Listing): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total ${connectedApps(sql, filter)} where true${narrowed(sql, filters, columns.compared(sql, grantExpressions(sql)))}
  `);
}

/** Returns whether the user has such a grant. */
export function hasGrant(sql: Queryable, filter: GrantFilter): Promise<boolean> {
  return hasRows(sql`select from access_grant where ${isSelected(sql, filter)} limit 1`);
}

/** `client` is the internal id. */
export type UserGrant = { userId: number; client: number; storeId: number | null; isRevoked: boolean };

/** Returns the grant of a user, even if revoked. */
export function findUserGrant(sql: Queryable, id: number): Promise<UserGrant | undefined> {
  return firstOf(sql<UserGrant[]>`
    select user_id as "userId", client, store_id as "storeId", date_revoked is not null as "isRevoked" from access_grant
    where id = ${id} and user_id is not null
  `);
}

/** Returns the connected app of a grant; undefined if its client is deleted. */
export async function findGrant(
  sql: Queryable,
  each: EachDatabase,
  grant: UserGrant,
): Promise<ConnectedApp | undefined> {
  const rows = await sql<ConnectedRow[]>`${connected(sql, grant)}`;
  const [app] = await withWebhooks(sql, each, grant.userId, rows);
  return app;
}

/** A grant of a member of a store, for the store or for the account. */
export type StoreGrantRow = GrantRow & {
  /** By how many entries of the list the app has access to the store, this one included. */
  entries: number;
  /** Whether one of these is for the whole account of the same member. */
  hasAccount: boolean;
};

/** A store, and the app that calls, which sees its own entries (null: none). */
export type StoreOfGrants = { shard: number; storeId: number; app: number | null };

/** Returns the `from` clause: an entry per client and member, and another one if the member has given access to the account, too. */
const storeGrants = (sql: Queryable, { shard, storeId, app }: StoreOfGrants) => sql`
  from (
    select ${grouped(sql)}, count(*) over (partition by g.client) as entries,
      bool_or(g.store_id is null) over (partition by g.client, g.user_id) as has_account
    from membership m cross join lateral (
      select * from access_grant
      where user_id = m.user_id and date_revoked is null and (store_id is null or store_id = ${storeId}) offset 0
    ) as g
    where m.shard = ${shard} and m.store_id = ${storeId} and (${app}::bigint is null or g.client = ${app})
    group by g.client, g.user_id, g.store_id
  ) as g ${parties(sql)}`;

const storeGrantsSelected = (sql: Queryable, store: StoreOfGrants) => sql`
  select ${selected(sql)}, g.entries, g.has_account as "hasAccount"
  ${storeGrants(sql, store)}`;

export function listStoreGrants(sql: Queryable, store: StoreOfGrants, listing: Listing): Promise<StoreGrantRow[]> {
  const compared = columns.compared(sql, grantExpressions(sql));
  return sql<StoreGrantRow[]>`
    ${storeGrantsSelected(sql, store)}
    where true${narrowed(sql, listing.filters, compared)}
    order by ${ordered(sql, listing.order, compared, [sql`g.grant_id`])} ${paged(sql, listing)}`;
}

export function countStoreGrants(
  sql: Queryable,
  store: StoreOfGrants,
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total ${storeGrants(sql, store)}
    where true${narrowed(sql, filters, columns.compared(sql, grantExpressions(sql)))}`);
}

/** Returns the entry of a member to which the grant with this id belongs; undefined if it has ended or gives no access to the store. */
export function findStoreGrant(sql: Queryable, store: StoreOfGrants, { userId, id }: { userId: number; id: number }) {
  return firstOf(sql<StoreGrantRow[]>`
    ${storeGrantsSelected(sql, store)}
    join access_grant named on named.id = ${id} and named.date_revoked is null
    where g.user_id = ${userId} and named.user_id = g.user_id and named.client = g.client
      and named.store_id is not distinct from g.store_id`);
}
