/** The statements that find out who calls, and what a token stands for. */
import type { Queryable } from '#db/pool.ts';
import type { Scope } from '#core/principal.ts';

/** Who a caller says it is, and what it shows for it. */
export type ClientClaim = { clientId: string; secretHash: Buffer | null; now: Date };

export type AuthenticatedClient = {
  id: number;
  clientId: string;
  isPublic: boolean;
  isTrusted: boolean;
  /** What an absent redirect_uri means for a client that the operator marked as legacy; null for all others. */
  impliedRedirectUri: string | null;
};

/** The columns of `AuthenticatedClient`, of a client `c`. */
export const clientColumns = (sql: Queryable) => sql`
  c.id, c.client_id as "clientId", c.is_public as "isPublic", c.trusted as "isTrusted",
  case when c.is_legacy then c.redirect_uris[1] end as "impliedRedirectUri"`;

/**
 * Whether a client `c` is the one who calls: a public one shows no secret, any other one that counts now, of which there
 * are several while a rotation overlaps. It is a condition, so that a statement that does something for a client can prove
 * it, too. What is compared is found by an index and not in constant time. That may tell a patient guesser about the
 * stored hash, but also who has all of it does not find the 256 random bits that it was made of.
 */
export const isClientAuthenticated = (sql: Queryable, { clientId, secretHash, now }: ClientClaim) => sql`
  c.client_id = ${clientId}
  and c.date_deleted is null
  and case when c.is_public
    then ${secretHash}::bytea is null
    else exists (
      select from client_secret s
      where s.client = c.id
        and s.hash = ${secretHash}
        and (s.date_expires is null or s.date_expires > ${now})
    )
  end`;

/** The client that the caller says it is; undefined where it does not prove it. */
export const findAuthenticatedClient = async (
  sql: Queryable,
  claim: ClientClaim,
): Promise<AuthenticatedClient | undefined> => {
  const [row] = await sql<
    AuthenticatedClient[]
  >`select ${clientColumns(sql)} from client c where ${isClientAuthenticated(sql, claim)}`;
  return row;
};

/** What a token hangs on, and what of it still stands. */
export type Standing = {
  grantId: number;
  clientId: number;
  publicClientId: string;
  userId: number | null;
  scope: Scope;
  /** By somebody, or with its client. */
  revoked: boolean;
  /** The operator keeps the grant's user out. */
  disabled: boolean;
  trusted: boolean;
  /** The stores that the grant reaches and its user is still a member of. */
  stores: number[];
};

/** The columns of `Standing`: of a grant `g`, its client `c` and its user `u`, who is not there for the platform's. */
const standing = (sql: Queryable) => sql`
  g.id as "grantId", g.client as "clientId", c.client_id as "publicClientId", g.user_id as "userId", g.scope,
  g.date_revoked is not null or c.date_deleted is not null as revoked,
  u.date_disabled is not null as disabled, c.trusted,
  array(
    select m.store_id from membership m
    where m.user_id = g.user_id
      and (g.scope = 'user_full_access' or (m.store_id = g.store_id and m.shard = g.store_id % 256))
    order by m.store_id
  ) as stores`;

export type BearerRow = Standing & { expires: Date; used: Date | null };

/**
 * Everything that a token stands for, as it is at this moment: the bearer check keeps no cache, so that a revocation or
 * a lost membership counts at the next request in every process.
 */
export const findBearer = async (sql: Queryable, hash: Buffer): Promise<BearerRow | undefined> => {
  const [row] = await sql<BearerRow[]>`
    select ${standing(sql)}, t.date_expires as expires, g.date_used as used
    from access_token t join access_grant g on g.id = t.grant_id join client c on c.id = g.client
      left join users u on u.id = g.user_id
    where t.hash = ${hash}
  `;
  return row;
};

/** Notes that the grant is in use; of requests at the same moment one does. */
export const touchGrant = async (
  sql: Queryable,
  touch: { grantId: number; now: Date; unlessSince: Date },
): Promise<void> => {
  await sql`
    update access_grant set date_used = ${touch.now}
    where id = ${touch.grantId} and (date_used is null or date_used <= ${touch.unlessSince})
  `;
};

export type IntrospectedRow = Standing & {
  storeId: number | null;
  isAccessToken: boolean;
  expires: Date;
};

/** An access or a refresh token; not a refresh token that was rotated. */
export const findIntrospected = async (sql: Queryable, hash: Buffer): Promise<IntrospectedRow | undefined> => {
  const [row] = await sql<IntrospectedRow[]>`
    select ${standing(sql)}, g.store_id as "storeId", t.is_access as "isAccessToken",
      t.date_expires as expires
    from (
      select grant_id, date_expires, true as is_access from access_token where hash = ${hash}
      union all
      select grant_id, date_expires, false from refresh_token where hash = ${hash} and rotated_at is null
    ) as t join access_grant g on g.id = t.grant_id join client c on c.id = g.client
      left join users u on u.id = g.user_id
  `;
  return row;
};
