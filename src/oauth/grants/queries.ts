/**
 * The statements of the token endpoint. Each that writes is one data-modifying CTE, which is its own transaction: a
 * BEGIN and a COMMIT around it would be two more statements and two more ways to be cut off in the middle.
 */
import type { Queryable } from '#database/pool.ts';
import type { Scope } from '#kernel/principal.ts';

/** What is stored of an access token and of the refresh token beside it. */
export type TokenPair = {
  access: { hash: Buffer; expires: Date };
  refresh: { hash: Buffer; expires: Date };
};

export type Granted = { scope: Scope; storeId: number | null };

export type CodeRow = Granted & {
  client: number;
  grantId: number;
  redirectUri: string;
  codeChallenge: string | null;
  expires: Date;
  used: boolean;
  revoked: boolean;
};

export const findCode = async (sql: Queryable, hash: Buffer): Promise<CodeRow | undefined> => {
  const [row] = await sql<CodeRow[]>`
    select g.client, g.id as "grantId", g.scope, g.store_id as "storeId", a.redirect_uri as "redirectUri",
      a.code_challenge as "codeChallenge", a.date_expires as expires, a.used_at is not null as used,
      g.date_revoked is not null as revoked
    from authorization_code a join access_grant g on g.id = a.grant_id
    where a.hash = ${hash}
  `;
  return row;
};

/**
 * Marks the code used and inserts its tokens; false where it was used already. Of parallel redemptions all but one wait
 * for the row and then find `used_at` set: that predicate is what makes a code work once.
 */
export const redeemCode = async (sql: Queryable, hash: Buffer, tokens: TokenPair, now: Date): Promise<boolean> => {
  const rows = await sql`
    with used as (
      update authorization_code set used_at = ${now}
      where hash = ${hash}
        and used_at is null
      returning grant_id
    ), access as (
      insert into access_token (hash, grant_id, date_expires)
      select ${tokens.access.hash}, grant_id, ${tokens.access.expires} from used
    ), refresh as (
      insert into refresh_token (hash, grant_id, date_expires)
      select ${tokens.refresh.hash}, grant_id, ${tokens.refresh.expires} from used
    )
    select from used
  `;
  return rows.length === 1;
};

export const revokeGrant = async (sql: Queryable, grantId: number, now: Date): Promise<void> => {
  await sql`update access_grant set date_revoked = ${now} where id = ${grantId} and date_revoked is null`;
};

/**
 * Moves the refresh token's expiry on and inserts an access token, if all of this holds: the grant is this client's and
 * not revoked, its user is still a member of its store, the token has not expired, and `scope` (the requested entries)
 * is part of what was granted. Undefined where any but the last fails; then `issued` tells.
 */
export const refreshGrant = async (
  sql: Queryable,
  refresh: {
    client: number;
    tokens: TokenPair;
    scope: readonly string[];
    now: Date;
  },
): Promise<(Granted & { issued: boolean }) | undefined> => {
  const { access, refresh: presented } = refresh.tokens;
  const [row] = await sql<(Granted & { issued: boolean })[]>`
    with found as (
      select g.id, g.scope, g.store_id,
        ${refresh.scope}::text[] <@ array[g.scope, 'store_id_' || g.store_id] as in_scope
      from refresh_token r join access_grant g on g.id = r.grant_id
      where r.hash = ${presented.hash} and r.date_expires > ${refresh.now}
        and g.client = ${refresh.client} and g.date_revoked is null
        and (g.store_id is null or exists (
          select from membership m
          where m.shard = g.store_id % 256 and m.store_id = g.store_id and m.user_id = g.user_id
        ))
    ), moved as (
      update refresh_token r set date_expires = ${presented.expires}
      from found where r.hash = ${presented.hash} and found.in_scope
    ), issued as (
      insert into access_token (hash, grant_id, date_expires)
      select ${access.hash}, id, ${access.expires} from found where in_scope
    )
    select scope, store_id as "storeId", in_scope as issued from found
  `;
  return row;
};

/** An access token on the platform's standing grant of this client, which the first call makes. */
export const insertPlatformToken = async (
  sql: Queryable,
  platform: { client: number; access: TokenPair['access']; now: Date },
): Promise<void> => {
  await sql`
    with standing as (
      select id from access_grant
      where client = ${platform.client} and scope = 'platform' and date_revoked is null
      order by id limit 1
    ), made as (
      insert into access_grant (id, client, scope, date_created)
      select nextval('id_n'), ${platform.client}, 'platform', ${platform.now} where not exists (select from standing)
      returning id
    )
    insert into access_token (hash, grant_id, date_expires)
    select ${platform.access.hash}, id, ${platform.access.expires}
    from (select id from standing union all select id from made) as either
  `;
};

/** A grant for a store with its tokens, without a code; false where there is no such client. */
export const insertStoreGrant = async (
  sql: Queryable,
  grant: { clientId: string; userId: number; storeId: number; tokens: TokenPair; now: Date },
): Promise<boolean> => {
  const { access, refresh } = grant.tokens;
  const rows = await sql`
    with made as (
      insert into access_grant (id, client, user_id, scope, store_id, date_created)
      select nextval('id_n'), id, ${grant.userId}, 'store_full_access', ${grant.storeId}, ${grant.now}
      from client where client_id = ${grant.clientId}
      returning id
    ), access as (
      insert into access_token (hash, grant_id, date_expires) select ${access.hash}, id, ${access.expires} from made
    ), refresh as (
      insert into refresh_token (hash, grant_id, date_expires) select ${refresh.hash}, id, ${refresh.expires} from made
    )
    select from made
  `;
  return rows.length === 1;
};
