/** SQL of /authorize: the stores to choose from, the locks and inserts of an approval. */
import type { Session } from '#identity/accounts/sessions.ts';
import type { Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { GrantedScope } from '../scope.ts';

/** `requiresFactor`: closed to members without a second factor. */
export type PickableStore = { id: number; name: string; domain: string; requiresFactor: boolean };

/** Returns the stores of which a user is a member, by name. */
export function storesOf(sql: Queryable, userId: number): Promise<PickableStore[]> {
  return sql<PickableStore[]>`
  select s.id, s.name, s.domain, s.second_factor = 'required' as "requiresFactor"
  from membership m join store s on s.shard = m.shard and s.id = m.store_id
  where m.user_id = ${userId}
  order by s.name, s.id
`;
}

/**
 * Locks the client, the user and the session until the transaction ends; returns false if one of them does not exist or the
 * user is disabled. The session is locked, because a password change ends sessions and may revoke all grants: it must either
 * see this grant or prevent it.
 */
export async function lockParties(sql: Queryable, client: number, session: Session): Promise<boolean> {
  const rows = await sql`
    select from users u join session s on s.user_id = u.id join client c on c.id = ${client} and c.date_deleted is null
    where u.id = ${session.userId} and u.date_disabled is null
      and s.hash = ${Buffer.from(session.id, 'hex')}
    for share
  `;
  return rows.length > 0;
}

/** Returns whether the client has access by this user already: to the store, or to the account if `storeId` is null. */
export async function hasGrant(
  sql: Queryable,
  of: { userId: number; client: number; storeId: number | null },
): Promise<boolean> {
  const rows = await sql`
    select from access_grant
    where user_id = ${of.userId} and client = ${of.client} and store_id is not distinct from ${of.storeId}
      and date_revoked is null
    limit 1
  `;
  return rows.length > 0;
}

/** Locks the user's membership in the store until the transaction ends; returns false if there is none. */
export async function lockMembership(sql: Queryable, userId: number, storeId: number): Promise<boolean> {
  const rows = await sql`
    select from membership
    where shard = ${shardOf(storeId)} and store_id = ${storeId} and user_id = ${userId}
    for share
  `;
  return rows.length > 0;
}

/** Inserts the grant and its code, and returns the id of the grant. */
export async function insertApproval(
  sql: Queryable,
  approval: GrantedScope & {
    client: number;
    userId: number;
    storeId: number | null;
    codeHash: Buffer;
    redirectUri: string | null;
    codeChallenge: string | null;
    now: Date;
    codeExpires: Date;
  },
): Promise<number> {
  const [row] = await sql<{ grantId: number }[]>`
    with made as (
      insert into access_grant (id, client, user_id, scope, permissions, store_id, date_created)
      values (nextval('id_n'), ${approval.client}, ${approval.userId}, ${approval.scope},
        ${approval.permissions}::text[], ${approval.storeId}, ${approval.now})
      returning id
    )
    insert into authorization_code (hash, grant_id, redirect_uri, code_challenge, date_expires)
    select ${approval.codeHash}, id, ${approval.redirectUri}, ${approval.codeChallenge}, ${approval.codeExpires}
    from made
    returning grant_id as "grantId"
  `;
  if (row === undefined) throw new Error('The inserted grant was not returned');
  return row.grantId;
}
