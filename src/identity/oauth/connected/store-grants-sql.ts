/** SQL of the apps of a store: the grants by which its members let apps in, those for their whole accounts included. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import type { Permission } from '#core/principal.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { grantExpressions, latestEnd, limitedScopes } from './connected-sql.ts';
import { grantFields } from './grant-fields.ts';

/** The id is that of the latest grant of this member to this client, for the store or for the account, which represents all of them. */
export type StoreGrantRow = RowOf<typeof grantFields> & {
  /** The internal id of the client. */
  client: number;
  logoDate: Date | null;
  /** The limited scopes of all the grants; null if one of them has full access. */
  permissions: Permission[] | null;
  email: string;
  /** The owner of the app; null if the operator created it. */
  ownerId: number | null;
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
    select g.client, g.user_id, g.store_id, max(g.id) as grant_id, min(g.date_created) as since, max(g.date_used) as last_used,
      ${limitedScopes(sql)} as limited, ${latestEnd(sql)} as ends, count(*) over (partition by g.client) as entries,
      bool_or(g.store_id is null) over (partition by g.client, g.user_id) as has_account
    from membership m cross join lateral (
      select * from access_grant
      where user_id = m.user_id and date_revoked is null and (store_id is null or store_id = ${storeId}) offset 0
    ) as g
    where m.shard = ${shard} and m.store_id = ${storeId} and (${app}::bigint is null or g.client = ${app})
    group by g.client, g.user_id, g.store_id
  ) as g
  join client c on c.id = g.client and c.date_deleted is null
  join users u on u.id = g.user_id
  left join client_logo l on l.client = c.id`;

const columns = columnsOf(grantFields, 'g');

const selected = (sql: Queryable, store: StoreOfGrants) => sql`
  select ${columns.selected(sql, grantExpressions(sql))}, g.client, l.date_modified as "logoDate",
    string_to_array(g.limited, ' ') as permissions, u.email, c.owner as "ownerId", g.entries, g.has_account as "hasAccount"
  ${storeGrants(sql, store)}`;

export function listStoreGrants(sql: Queryable, store: StoreOfGrants, listing: Listing): Promise<StoreGrantRow[]> {
  const compared = columns.compared(sql, grantExpressions(sql));
  return sql<StoreGrantRow[]>`
    ${selected(sql, store)}
    where true${narrowed(sql, listing.filters, compared)}
    order by ${ordered(sql, listing.order, compared, [sql`g.grant_id`])} ${paged(sql, listing)}`;
}

export async function countStoreGrants(
  sql: Queryable,
  store: StoreOfGrants,
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total ${storeGrants(sql, store)}
    where true${narrowed(sql, filters, columns.compared(sql, grantExpressions(sql)))}`;
  return row?.total ?? 0;
}

/** Returns the entry of a member to which the grant with this id belongs; undefined if it has ended or gives no access to the store. */
export async function findStoreGrant(
  sql: Queryable,
  store: StoreOfGrants,
  { userId, id }: { userId: number; id: number },
): Promise<StoreGrantRow | undefined> {
  const [row] = await sql<StoreGrantRow[]>`
    ${selected(sql, store)}
    join access_grant named on named.id = ${id} and named.date_revoked is null
    where g.user_id = ${userId} and named.user_id = g.user_id and named.client = g.client
      and named.store_id is not distinct from g.store_id`;
  return row;
}
