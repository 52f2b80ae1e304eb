/** SQL that lists clients for the API. */
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { clients, type Client } from '../clients-sql.ts';
import type { CLIENT_PROPERTIES } from './document.ts';

const columns = (sql: Queryable): Columns<typeof CLIENT_PROPERTIES> => ({
  client_id: sql`c.client_id`,
  name: sql`c.name`,
  company: sql`c.company`,
  description: sql`c.description`,
  contact: sql`c.contact`,
  client_uri: sql`c.client_uri`,
  policy_uri: sql`c.policy_uri`,
  tos_uri: sql`c.tos_uri`,
  initiate_login_uri: sql`c.initiate_login_uri`,
  webhook_url: sql`(select a.url from app_webhook a where a.client = c.id)`,
  owner: sql`c.owner`,
  is_public: sql`c.is_public`,
  is_trusted: sql`c.trusted`,
  is_verified: sql`c.is_verified`,
  is_legacy: sql`c.is_legacy`,
  is_listed: sql`c.is_listed`,
  rotates_refresh_tokens: sql`c.rotates_refresh_tokens`,
  requires_pkce: sql`(c.requires_pkce or c.is_public)`,
  date_created: sql`c.date_created`,
  date_modified: sql`c.date_modified`,
});

/** Returns the condition of listed clients; `owner` null selects the clients of all owners. */
const listed = (sql: Queryable, owner: number | null, { filters }: Listing) => sql`
  c.date_deleted is null and ${owner === null ? sql`true` : sql`c.owner = ${owner}`}${narrowed(sql, filters, columns(sql))}`;

export function listClients(sql: Queryable, owner: number | null, listing: Listing): Promise<Client[]> {
  return sql<Client[]>`
  ${clients(sql)} where ${listed(sql, owner, listing)}
  order by ${ordered(sql, listing.order, columns(sql), [sql`c.id`])} ${paged(sql, listing)}
`;
}

export async function countClients(sql: Queryable, owner: number | null, listing: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from client c where ${listed(sql, owner, listing)}
  `;
  return row?.total ?? 0;
}
