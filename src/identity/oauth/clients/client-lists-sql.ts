/** SQL of the lists of the API: clients, and the installs of an app (the stores and accounts that it has access to). */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import { totalOf, type Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { clientKey, clients, columns, type Client } from './clients-sql.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { installFields } from '../grants.ts';
import type { Permission } from '#core/principal.ts';
import { inAvailable, type EachDatabase } from '#shards/map.ts';
import { countInStores, type WebhooksInStore } from '../webhooks-of-apps-sql.ts';
import { limitedScopes, scopeText } from '../connected/connected-sql.ts';

const compared = (sql: Queryable, reader: number | null) =>
  columns.compared(sql, {
    webhook_url: sql`(select a.url from app_webhook a where a.client = c.id)`,
    webhook_query: sql`(select a.query from app_webhook a where a.client = c.id)`,
    webhook_filter: sql`(select a.filter from app_webhook a where a.client = c.id)`,
    owner: sql`c.owner`,
    requires_pkce: sql`(c.requires_pkce or c.is_public)`,
    external_id: clientKey(sql, reader),
  });

/** The clients of a list: those of one owner, or of all (null); those with these internal ids, or all. */
type Shown = { owner: number | null; ids: readonly number[] | undefined; reader: number | null };

const listed = (sql: Queryable, { owner, ids, reader }: Shown, { filters }: Listing) => sql`
  c.date_deleted is null and ${owner === null ? sql`true` : sql`c.owner = ${owner}`}
  and ${ids === undefined ? sql`true` : sql`c.id = any(${ids}::bigint[])`}${narrowed(sql, filters, compared(sql, reader))}`;

export function listClients(sql: Queryable, shown: Shown, listing: Listing): Promise<Client[]> {
  return sql<Client[]>`
  ${clients(sql, shown.reader)} where ${listed(sql, shown, listing)}
  order by ${ordered(sql, listing.order, compared(sql, shown.reader), [sql`c.id`])} ${paged(sql, listing)}
`;
}

export function countClients(sql: Queryable, shown: Shown, listing: Listing): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from client c where ${listed(sql, shown, listing)}
  `);
}

export type Install = RowOf<typeof installFields> & {
  /** The limited scopes of all the grants; null if one of them has full access. */
  permissions: Permission[] | null;
} & Omit<WebhooksInStore, 'storeId'>;

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

const NO_WEBHOOKS = { webhooks: 0, active: 0, failing: 0 };

const installColumns = columnsOf(installFields, 'g');

const expressions = (sql: Queryable) => ({
  id: sql`g.id`,
  store_id: sql`g.store_id`,
  store_name: sql`s.name`,
  scope: scopeText(sql),
  date_created: sql`g.since`,
  date_used: sql`g.last_used`,
});

/** Returns a page of installs, ordered by id by default, with the webhooks of the page's stores. */
export async function listInstalls(sql: Queryable, each: EachDatabase, client: number, listing: Listing) {
  const by = installColumns.compared(sql, expressions(sql));
  const rows = await sql<Omit<Install, 'webhooks' | 'active' | 'failing'>[]>`
  select ${installColumns.selected(sql, expressions(sql))}, string_to_array(g.limited, ' ') as permissions
  ${installs(sql, client)}
  where true${narrowed(sql, listing.filters, by)}
  order by ${ordered(sql, listing.order, by, [sql`g.id`])} ${paged(sql, listing)}`;
  const storeIds = rows.flatMap(({ storeId }) => storeId ?? []);
  const counted = await inAvailable(each, (database) => countInStores(database, client, storeIds));
  const counts = new Map(counted.map((one) => [one.storeId, one]));
  return rows.map((row) => Object.assign(row, (row.storeId !== null && counts.get(row.storeId)) || NO_WEBHOOKS));
}

export function countInstalls(sql: Queryable, client: number, { filters }: Listing): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total ${installs(sql, client)} where true${narrowed(sql, filters, installColumns.compared(sql, expressions(sql)))}`);
}

/**
 * Returns which of these pairs have access by the app, by index: the user is a member of the store and has given the app access to it
 * or to the account.
 */
export async function listAccessible(
  sql: Queryable,
  client: number,
  pairs: readonly { userId: number | null; storeId: number }[],
): Promise<ReadonlySet<number>> {
  const rows = await sql<{ at: number }[]>`
    select p.at - 1 as at
    from unnest(
      ${pairs.map(({ userId }) => userId)}::bigint[], ${pairs.map(({ storeId }) => storeId)}::bigint[]
    ) with ordinality as p (user_id, store_id, at)
    cross join lateral (
      select from membership m where m.shard = p.store_id % 256 and m.store_id = p.store_id and m.user_id = p.user_id limit 1
    ) as m
    cross join lateral (
      select from access_grant g
      where g.client = ${client} and g.user_id = p.user_id and g.date_revoked is null
        and (g.store_id is null or g.store_id = p.store_id)
      limit 1
    ) as g`;
  return new Set(rows.map(({ at }) => at));
}
