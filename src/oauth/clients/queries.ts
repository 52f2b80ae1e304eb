/** The statements of clients: client, client_secret, client_logo and registration_token are written here and nowhere else. */
import type { Queryable } from '#database/pool.ts';

export type Client = {
  id: number;
  clientId: string;
  name: string;
  company: string | null;
  description: string | null;
  contact: string | null;
  redirectUris: string[];
  isPublic: boolean;
  /** False: it registered itself, and nobody has looked. */
  isVerified: boolean;
  /** Whose app it is; null where the operator made it. */
  ownerId: number | null;
  /** When its logo was uploaded, for the address of the picture; null without one. */
  logoDate: Date | null;
};

export type NewClientRow = Pick<Client, 'clientId' | 'name' | 'company' | 'description' | 'redirectUris'>;

/** False where the client_id is taken. */
export const insertClient = async (
  sql: Queryable,
  client: NewClientRow & { trusted: boolean; secretHash: Buffer; now: Date },
): Promise<boolean> => {
  const rows = await sql`
    with made as (
      insert into client (id, client_id, name, company, description, redirect_uris, trusted, date_created)
      values (nextval('id_n'), ${client.clientId}, ${client.name}, ${client.company}, ${client.description},
        ${client.redirectUris}::text[], ${client.trusted}, ${client.now})
      on conflict (client_id) do nothing
      returning id
    )
    insert into client_secret (hash, client, date_created) select ${client.secretHash}, id, ${client.now} from made
    returning client
  `;
  return rows.length === 1;
};

export const findClient = async (sql: Queryable, clientId: string): Promise<Client | undefined> => {
  const [row] = await sql<Client[]>`
    select c.id, c.client_id as "clientId", c.name, c.company, c.description, c.contact,
      c.redirect_uris as "redirectUris", c.is_public as "isPublic", c.is_verified as "isVerified", c.owner as "ownerId",
      l.date_modified as "logoDate"
    from client c left join client_logo l on l.client = c.id
    where c.client_id = ${clientId}
  `;
  return row;
};
