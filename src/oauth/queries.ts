/** The statements that find out who calls: a client by its secret, anybody by an access token. */
import type { Queryable } from '#database/pool.ts';
import type { Scope } from '#kernel/principal.ts';

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
