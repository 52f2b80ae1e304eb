/**
 * The statements of the authorization server's front: clients, the consent page and the bearer check. The tables client,
 * client_secret, access_grant, authorization_code, access_token and refresh_token are written in this room and nowhere
 * else; what the token endpoint writes is in grants/queries.ts.
 */
import type { Queryable } from '#database/pool.ts';
import type { Scope } from '#kernel/principal.ts';

export type Client = {
  id: number;
  clientId: string;
  name: string;
  company: string | null;
  description: string | null;
  redirectUris: string[];
};

/** False where the client_id is taken. */
export const insertClient = async (
  sql: Queryable,
  client: Omit<Client, 'id'> & { trusted: boolean; secretHash: Buffer; now: Date },
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
    select id, client_id as "clientId", name, company, description, redirect_uris as "redirectUris"
    from client where client_id = ${clientId}
  `;
  return row;
};

export type ClientSecrets = { id: number; trusted: boolean; secretHashes: Buffer[] };

/** A client with the secrets that count now: two while a rotation overlaps. */
export const findClientSecrets = async (
  sql: Queryable,
  clientId: string,
  now: Date,
): Promise<ClientSecrets | undefined> => {
  const [row] = await sql<ClientSecrets[]>`
    select c.id, c.trusted, array(
      select s.hash from client_secret s
      where s.client = c.id and (s.date_expires is null or s.date_expires > ${now})
    ) as "secretHashes"
    from client c where c.client_id = ${clientId}
  `;
  return row;
};

export type PickableStore = { id: number; name: string; domain: string };

/** The stores that a user is a member of, by name. */
export const storesOf = (sql: Queryable, userId: number): Promise<PickableStore[]> => sql<PickableStore[]>`
  select s.id, s.name, s.domain
  from membership m join store s on s.shard = m.shard and s.id = m.store_id
  where m.user_id = ${userId}
  order by s.name, s.id
`;

/** An approval: the grant and the code for it, one statement and so one transaction. */
export const insertApproval = async (
  sql: Queryable,
  approval: {
    client: number;
    userId: number;
    scope: Scope;
    storeId: number | null;
    codeHash: Buffer;
    redirectUri: string;
    codeChallenge: string | null;
    now: Date;
    codeExpires: Date;
  },
): Promise<void> => {
  await sql`
    with made as (
      insert into access_grant (id, client, user_id, scope, store_id, date_created)
      values (nextval('id_n'), ${approval.client}, ${approval.userId}, ${approval.scope}, ${approval.storeId},
        ${approval.now})
      returning id
    )
    insert into authorization_code (hash, grant_id, redirect_uri, code_challenge, date_expires)
    select ${approval.codeHash}, id, ${approval.redirectUri}, ${approval.codeChallenge}, ${approval.codeExpires}
    from made
  `;
};

export type BearerRow = {
  grantId: number;
  clientId: number;
  userId: number | null;
  scope: Scope;
  revoked: boolean;
  expires: Date;
  trusted: boolean;
  /** The stores that the grant reaches and its user is still a member of. */
  stores: number[];
};

/**
 * Everything that a token stands for, as it is at this moment: the bearer check keeps no cache, so that a revocation or
 * a lost membership counts at the next request in every process.
 */
export const findBearer = async (sql: Queryable, hash: Buffer): Promise<BearerRow | undefined> => {
  const [row] = await sql<BearerRow[]>`
    select g.id as "grantId", g.client as "clientId", g.user_id as "userId", g.scope,
      g.date_revoked is not null as revoked, t.date_expires as expires, c.trusted,
      array(
        select m.store_id from membership m
        where m.user_id = g.user_id
          and (g.scope = 'user_full_access' or (m.store_id = g.store_id and m.shard = g.store_id % 256))
        order by m.store_id
      ) as stores
    from access_token t join access_grant g on g.id = t.grant_id join client c on c.id = g.client
    where t.hash = ${hash}
  `;
  return row;
};
