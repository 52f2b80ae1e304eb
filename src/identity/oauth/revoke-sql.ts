/** SQL that revokes grants and tokens. */
import type { Queryable } from '#db/pool.ts';
import type { LoggedGrant } from './grant-changes.ts';

/** The client, user and store of a revoked grant or token. */
export type Ended = { client: number; userId: number | null; storeId: number | null };

/**
 * Revokes a grant with all its tokens and returns it; undefined if it or its client has already ended. It locks the client
 * first, so that the grant cannot end concurrently with its client.
 */
export async function revokeGrant(sql: Queryable, grantId: number, now: Date): Promise<LoggedGrant | undefined> {
  const [row] = await sql<LoggedGrant[]>`
    with locked as (
      select id as locked_id, client_id, name from client
      where id = (select client from access_grant where id = ${grantId}) and date_deleted is null
      for share
    )
    update access_grant g set date_revoked = ${now} from locked
    where g.id = ${grantId} and client = locked_id and date_revoked is null
    returning g.id as "grantId", user_id as "userId", store_id as "storeId", permissions, client,
      client_id as "clientId", name
  `;
  return row;
}

/** Returns the grant of a client's refresh token, including a rotated or expired one. */
export async function grantOfRefreshToken(sql: Queryable, hash: Buffer, client: number): Promise<number | undefined> {
  const [row] = await sql<{ grantId: number }[]>`
    select g.id as "grantId"
    from refresh_token r cross join lateral (select * from access_grant where id = r.grant_id offset 0) as g
    where r.hash = ${hash}
      and g.client = ${client}
  `;
  return row?.grantId;
}

/**
 * Deletes one access token of a client and returns its grant, which remains with its other tokens; undefined if there is
 * no such token.
 */
export async function deleteAccessToken(
  sql: Queryable,
  hash: Buffer,
  client: number,
): Promise<(Ended & { grantId: number }) | undefined> {
  const [row] = await sql<(Ended & { grantId: number })[]>`
    delete from access_token t using access_grant g
    where t.hash = ${hash} and g.id = t.grant_id
      and g.client = ${client}
    returning g.id as "grantId", g.client, g.user_id as "userId", g.store_id as "storeId"
  `;
  return row;
}
