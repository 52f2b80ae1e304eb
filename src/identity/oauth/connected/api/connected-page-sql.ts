/** SQL that lists and finds grants for the API. */
import type { EachDatabase } from '#shards/each.ts';
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import {
  connectedApps,
  connectedColumns,
  scopeText,
  withWebhooks,
  type ConnectedApp,
  type ConnectedRow,
  type GrantFilter,
} from '../connected-sql.ts';
import type { GRANT_PROPERTIES } from './document.ts';

const columns = (sql: Queryable): Columns<typeof GRANT_PROPERTIES> => ({
  id: sql`g.grant_id`,
  client_id: sql`c.client_id`,
  name: sql`c.name`,
  company: sql`c.company`,
  is_verified: sql`c.is_verified`,
  scope: scopeText(sql),
  store_id: sql`g.store_id`,
  date_created: sql`g.since`,
  date_used: sql`g.last_used`,
});

export async function listGrants(
  sql: Queryable,
  each: EachDatabase,
  filter: GrantFilter,
  listing: Listing,
): Promise<ConnectedApp[]> {
  const rows = await sql<ConnectedRow[]>`
    select ${connectedColumns(sql)} ${connectedApps(sql, filter)}
    where true${narrowed(sql, listing.filters, columns(sql))}
    order by ${ordered(sql, listing.order, columns(sql), [sql`g.grant_id`])} ${paged(sql, listing)}
  `;
  return withWebhooks(sql, each, filter.userId, rows);
}

export async function countGrants(sql: Queryable, filter: GrantFilter, { filters }: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total ${connectedApps(sql, filter)} where true${narrowed(sql, filters, columns(sql))}
  `;
  return row?.total ?? 0;
}

/** `client` is the internal id. */
export type ActiveGrant = { userId: number; client: number; storeId: number | null };

/** Returns a user's grant; undefined if it does not exist or is revoked. */
export async function findActiveGrant(sql: Queryable, id: number): Promise<ActiveGrant | undefined> {
  const [row] = await sql<ActiveGrant[]>`
    select user_id as "userId", client, store_id as "storeId" from access_grant
    where id = ${id} and date_revoked is null and user_id is not null
  `;
  return row;
}

/** Returns the connected app of a grant; undefined if its client is deleted. */
export async function findGrant(
  sql: Queryable,
  each: EachDatabase,
  { userId, ...of }: ActiveGrant,
): Promise<ConnectedApp | undefined> {
  const rows = await sql<ConnectedRow[]>`
    select ${connectedColumns(sql)} ${connectedApps(sql, { userId, of })}
  `;
  const [app] = await withWebhooks(sql, each, userId, rows);
  return app;
}
