/**
 * SQL of /authorize (the stores to choose from, the locks and inserts of an approval), and of the devices that wait for an
 * approval. oauth-purges-sql.ts deletes expired rows.
 */
import type { Session } from '#identity/accounts/sessions.ts';
import { firstOf, hasRows, oneOf, type Queryable } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { GrantedScope } from '../scope.ts';
import { isClientAuthenticated, type ClientClaim } from '../grants-sql.ts';

/** `requiresFactor`: closed to members without a second factor. */
export type PickableStore = { id: number; name: string; domain: string; requiresFactor: boolean };

/** Returns the stores of a user that are not suspended. */
export function storesOf(sql: Queryable, userId: number): Promise<PickableStore[]> {
  return sql<PickableStore[]>`
  select s.id, s.name, s.domain, s.second_factor = 'required' as "requiresFactor"
  from membership m join store s on s.shard = m.shard and s.id = m.store_id
  where m.user_id = ${userId} and s.suspended_reason is null
  order by s.name, s.id
`;
}

/**
 * Locks the client, the user and the session until the transaction ends; returns false if one of them does not exist, the client is
 * suspended or the user is disabled. The session is locked, because a password change ends sessions and may revoke all grants: it must either
 * see this grant or prevent it.
 */
export function lockParties(sql: Queryable, client: number, session: Session): Promise<boolean> {
  return hasRows(sql`
    select from users u join session s on s.user_id = u.id join client c on c.id = ${client} and c.date_deleted is null
      and c.suspended_reason is null
    where u.id = ${session.userId} and u.date_disabled is null
      and s.hash = ${Buffer.from(session.id, 'hex')}
    for share
  `);
}

/**
 * Locks the store and the user's membership in it until the transaction ends, in this order, as an erasure does; returns false if there is
 * no such membership, or the store is suspended.
 */
export function lockMembership(sql: Queryable, userId: number, storeId: number): Promise<boolean> {
  return hasRows(sql`
    select from membership m join store s on s.shard = m.shard and s.id = m.store_id and s.suspended_reason is null
    where m.shard = ${shardOf(storeId)} and m.store_id = ${storeId} and m.user_id = ${userId}
    for share of s for share of m
  `);
}

/**
 * Returns whether the person may not let apps into the store: they are disabled, or have no second factor, which the store requires, or
 * the operator of everyone (`requiresFactor`).
 */
export function isClosedTo(
  sql: Queryable,
  { userId, storeId, requiresFactor }: { userId: number; storeId: number; requiresFactor: boolean },
): Promise<boolean> {
  return hasRows(sql`
    select from users u join store s on s.shard = ${shardOf(storeId)} and s.id = ${storeId}
    where u.id = ${userId} and (u.date_disabled is not null or (${requiresFactor} or s.second_factor = 'required')
      and not exists (select from authenticator_app where user_id = u.id) and not exists (select from passkey where user_id = u.id))`);
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
    ends: Date | null;
    codeExpires: Date;
  },
): Promise<number> {
  const { grantId } = await oneOf(sql<{ grantId: number }[]>`
    with made as (
      insert into access_grant (id, client, user_id, scope, permissions, store_id, date_created, date_ends)
      values (nextval('id_n'), ${approval.client}, ${approval.userId}, ${approval.scope},
        ${approval.permissions}::text[], ${approval.storeId}, ${approval.now}, ${approval.ends})
      returning id
    )
    insert into authorization_code (hash, grant_id, redirect_uri, code_challenge, date_expires)
    select ${approval.codeHash}, id, ${approval.redirectUri}, ${approval.codeChallenge}, ${approval.codeExpires}
    from made
    returning grant_id as "grantId"
  `);
  return grantId;
}

/** The seconds by which `slow_down` extends the interval (RFC 8628 §3.5). */
const SLOWER_SECONDS = 5;
const INTERVAL_MAX_SECONDS = 600;
/** A poll may be this much early, because the network does not delay all requests equally. */
const EARLY_MS = 1_000;

/** Inserts a device authorization; returns false if another one has the user code. */
export function insertDeviceAuthorization(
  sql: Queryable,
  device: {
    hash: Buffer;
    userCodeHash: Buffer;
    client: number;
    scope: string;
    intervalSeconds: number;
    expires: Date;
  },
): Promise<boolean> {
  return hasRows(sql`
    insert into device_authorization (hash, user_code_hash, client, scope, interval_seconds, date_expires)
    values (${device.hash}, ${device.userCodeHash}, ${device.client}, ${device.scope}, ${device.intervalSeconds},
      ${device.expires})
    on conflict (user_code_hash) do nothing
  `);
}

/** `clientId` is the public id, `scope` as it was requested. */
type PendingDevice = { hash: Buffer; clientId: string; scope: string; expires: Date };

/** Returns the authorization that waits for a decision, by the hashes of its user code under all keys. */
export function findPendingDevice(sql: Queryable, userCodeHashes: readonly Buffer[], now: Date) {
  return firstOf(sql<PendingDevice[]>`
    select d.hash, c.client_id as "clientId", d.scope, d.date_expires as expires
    from device_authorization d join client c on c.id = d.client
    where d.user_code_hash = any(${userCodeHashes}::bytea[]) and d.date_denied is null and d.date_expires > ${now}
  `);
}

/**
 * Deletes the authorization that waits for a decision, in the transaction of the approval; returns false if it was decided or has
 * expired. Of several decisions at once, one finds the row.
 */
export function takePendingDevice(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return hasRows(sql`
    delete from device_authorization where hash = ${hash} and date_denied is null and date_expires > ${now}
  `);
}

/** Marks the authorization as denied; returns false if it was decided or has expired. */
export function denyPendingDevice(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return hasRows(sql`
    update device_authorization set date_denied = ${now}
    where hash = ${hash} and date_denied is null and date_expires > ${now}
  `);
}

/** Null if there is no such authorization of the client, for example because it was approved. */
export type DeviceState = 'pending' | 'too fast' | 'denied' | 'expired' | null;

/**
 * Returns the state of a device authorization and records the poll, in one statement, which also authenticates the client; undefined if
 * the client is not authenticated. The row is locked first, so that a decision at the same time comes before or after.
 */
export function pollDevice(
  sql: Queryable,
  claim: ClientClaim,
  hash: Buffer,
): Promise<{ state: DeviceState } | undefined> {
  const { now } = claim;
  const early = new Date(now.getTime() + EARLY_MS);
  return firstOf(sql<{ state: DeviceState }[]>`
    with caller as (
      select c.id from client c where ${isClientAuthenticated(sql, claim)}
    ), found as (
      select d.hash, case
        when d.date_expires <= ${now} then 'expired'
        when d.date_denied is not null then 'denied'
        when d.date_polled + d.interval_seconds * interval '1 second' > ${early} then 'too fast'
        else 'pending' end as state
      from caller cross join lateral (
        select * from device_authorization where hash = ${hash} offset 0 for update
      ) as d
      where d.client = caller.id
    ), polled as (
      update device_authorization d set date_polled = ${now}, interval_seconds = case found.state
        when 'too fast' then least(d.interval_seconds + ${SLOWER_SECONDS}::integer, ${INTERVAL_MAX_SECONDS}::integer)
        else d.interval_seconds end
      from found where d.hash = found.hash and found.state in ('pending', 'too fast')
    )
    select found.state from caller left join found on true
  `);
}
