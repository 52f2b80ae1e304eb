/** SQL of the installs of an app: the stores and accounts that it has access to. */
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import type { Permission } from '#core/principal.ts';
import { limitedScopes, scopeText } from '../../connected/connected-sql.ts';
import type { INSTALL_PROPERTIES } from './install.ts';

export type Install = {
  /** The latest grant for this store, or of this account; represents all of them. */
  id: number;
  /** Null if a user has given access to the account with all its stores. */
  storeId: number | null;
  storeName: string | null;
  /** The limited scopes of all the grants; null if one of them has full access. */
  permissions: Permission[] | null;
  since: Date;
  lastUsed: Date | null;
  /** The webhooks of the app in this store; 0 for an account, whose stores have installs of their own or none. */
  webhooks: number;
  active: number;
  failing: number;
};

/**
 * Returns the `from` clause: one row per store, and one per account, which has no name here because users are private. A grant
 * for a store counts only while its user is a member.
 */
const installs = (sql: Queryable, client: number) => sql`
  from (
    select g.store_id, max(g.id) as id, min(g.date_created) as since, max(g.date_used) as last_used,
      ${limitedScopes(sql)} as limited
    from access_grant g
    where g.client = ${client} and g.date_revoked is null and g.user_id is not null and (g.store_id is null or exists (
      select from membership m where m.shard = g.store_id % 256 and m.store_id = g.store_id and m.user_id = g.user_id
    ))
    group by g.store_id, case when g.store_id is null then g.user_id end
  ) as g
  left join store s on s.shard = g.store_id % 256 and s.id = g.store_id`;

const columns = (sql: Queryable): Columns<typeof INSTALL_PROPERTIES> => ({
  id: sql`g.id`,
  store_id: sql`g.store_id`,
  store_name: sql`s.name`,
  scope: scopeText(sql),
  date_created: sql`g.since`,
  date_used: sql`g.last_used`,
});

/** Returns a page of installs, ordered by id by default, with the webhooks of the page's stores. */
export function listInstalls(sql: Queryable, client: number, listing: Listing): Promise<Install[]> {
  return sql<Install[]>`
  select p.*, coalesce(w.webhooks, 0) as webhooks, coalesce(w.active, 0) as active, coalesce(w.failing, 0) as failing
  from (
    select g.id, g.store_id as "storeId", s.name as "storeName", string_to_array(g.limited, ' ') as permissions, g.since,
      g.last_used as "lastUsed", row_number() over (order by ${ordered(sql, listing.order, columns(sql), [sql`g.id`])}) as at
    ${installs(sql, client)}
    where true${narrowed(sql, listing.filters, columns(sql))}
    order by at ${paged(sql, listing)}
  ) as p
  left join lateral (
    select count(*) as webhooks, count(*) filter (where w.is_active) as active,
      count(*) filter (where w.is_active and t.consecutive_failures > 0) as failing
    from webhook w
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    where w.shard = p."storeId" % 256 and w.store_id = p."storeId" and w.client = ${client}
  ) as w on true
  order by p.at`;
}

export async function countInstalls(sql: Queryable, client: number, { filters }: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total ${installs(sql, client)} where true${narrowed(sql, filters, columns(sql))}`;
  return row?.total ?? 0;
}
