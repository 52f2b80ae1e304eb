/** The statements of /authorize: which stores may be chosen, and what an approval writes. */
import type { Session } from '#identity/accounts/sessions.ts';
import type { Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { Scope } from '#core/principal.ts';

export type PickableStore = { id: number; name: string; domain: string };

/** The stores that a user is a member of, by name. */
export const storesOf = (sql: Queryable, userId: number): Promise<PickableStore[]> => sql<PickableStore[]>`
  select s.id, s.name, s.domain
  from membership m join store s on s.shard = m.shard and s.id = m.store_id
  where m.user_id = ${userId}
  order by s.name, s.id
`;

/**
 * Whether the client is there, and the person, not disabled and still signed in with this session; all of it stays so
 * until the transaction ends. The session, because a new password ends it and may disconnect all apps: what was allowed
 * from it a moment before must be seen by that, or not be allowed.
 */
export const holdParties = async (sql: Queryable, client: number, session: Session): Promise<boolean> => {
  const rows = await sql`
    select from users u join session s on s.user_id = u.id join client c on c.id = ${client} and c.date_deleted is null
    where u.id = ${session.userId} and u.date_disabled is null
      and s.hash = ${Buffer.from(session.id, 'hex')}
    for share
  `;
  return rows.length > 0;
};

/** Whether the user is a member of the store; they stay one until the transaction ends. */
export const holdMembership = async (sql: Queryable, userId: number, storeId: number): Promise<boolean> => {
  const rows = await sql`
    select from membership
    where shard = ${shardOf(storeId)} and store_id = ${storeId} and user_id = ${userId}
    for share
  `;
  return rows.length > 0;
};

/** An approval: the grant, whose id comes back, and the code for it. */
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
): Promise<number> => {
  const [row] = await sql<{ grantId: number }[]>`
    with made as (
      insert into access_grant (id, client, user_id, scope, store_id, date_created)
      values (nextval('id_n'), ${approval.client}, ${approval.userId}, ${approval.scope}, ${approval.storeId},
        ${approval.now})
      returning id
    )
    insert into authorization_code (hash, grant_id, redirect_uri, code_challenge, date_expires)
    select ${approval.codeHash}, id, ${approval.redirectUri}, ${approval.codeChallenge}, ${approval.codeExpires}
    from made
    returning grant_id as "grantId"
  `;
  if (row === undefined) throw new Error('A grant that was just made is not there');
  return row.grantId;
};
