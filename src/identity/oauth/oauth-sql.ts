/** SQL that looks up tokens and ends them. */
import { firstOf, hasRows, type Queryable } from '#db/pool.ts';
import type { GrantedScope } from './scope.ts';
import type { LoggedGrant } from './grants.ts';

export type GrantStatus = GrantedScope & {
  grantId: number;
  clientId: number;
  publicClientId: string;
  userId: number | null;
  /** The grant is revoked or its client deleted. */
  revoked: boolean;
  /** When a retired grant ends; null for others. */
  ends: Date | null;
  /** The grant's user is disabled. */
  disabled: boolean;
  /** Why the client is suspended; null if it is not. */
  suspendedReason: string | null;
  trusted: boolean;
  /** The stores of the grant of which its user is still a member. */
  stores: number[];
  /** Why each of these stores is suspended, in their order; null if it is not. */
  reasons: (string | null)[];
};

/**
 * Returns the joins of a grant `g`, its client `c`, its user `u` and its stores `r` to a row `t` with `grant_id`. Each row is looked up by its key
 * (`offset 0`): statements that were planned when the tables were empty joined all their rows, and read 120,000 pages for a token.
 */
const grantJoins = (sql: Queryable) => sql`
  cross join lateral (select * from access_grant where id = t.grant_id offset 0) as g
  cross join lateral (select * from client where id = g.client offset 0) as c
  left join lateral (select * from users where id = g.user_id offset 0) as u on true
  cross join lateral (
    select coalesce(array_agg(m.store_id order by m.store_id), '{}') as stores,
      coalesce(array_agg(s.suspended_reason order by m.store_id), '{}') as reasons
    from membership m cross join lateral (
      select suspended_reason from store where shard = m.shard and id = m.store_id offset 0
    ) as s
    where m.user_id = g.user_id
      and (g.scope = 'user_full_access' or (m.store_id = g.store_id and m.shard = g.store_id % 256))
  ) as r`;

/**
 * Returns the columns of `GrantStatus`, for a grant `g`, its client `c` and its user `u`, which is null for a grant of
 * the platform, and the stores `r` that they reach. A token `t` that a refresh narrowed has permissions of its own.
 */
const grantStatusColumns = (sql: Queryable) => sql`
  g.id as "grantId", g.client as "clientId", c.client_id as "publicClientId", g.user_id as "userId",
  case when t.permissions is null then g.scope else 'store_limited' end as scope,
  coalesce(t.permissions, g.permissions) as permissions,
  g.date_revoked is not null or c.date_deleted is not null as revoked,
  g.date_ends as ends, u.date_disabled is not null as disabled, c.suspended_reason as "suspendedReason", c.trusted,
  r.stores, r.reasons`;

/** `isFirstUse`: the access token was issued for a rotated refresh token, which its first use ends. */
export type BearerRow = GrantStatus & { expires: Date; used: Date | null; isFirstUse: boolean };

/**
 * Returns the current state of the grant of each access token, in the order of the hashes; undefined for an unknown one. There is
 * no cache, so a revocation or a lost membership takes effect with the next request in every process.
 */
export async function findBearers(
  sql: Queryable,
  hashes: readonly Buffer[],
): Promise<readonly (BearerRow | undefined)[]> {
  const rows = await sql<(BearerRow & { at: number })[]>`
    select found.*, asked.at
    from unnest(${hashes}::bytea[]) with ordinality as asked (hash, at)
      cross join lateral (
        select ${grantStatusColumns(sql)}, t.date_expires as expires, g.date_used as used,
          t.predecessor is not null as "isFirstUse"
        from access_token t ${grantJoins(sql)}
        where t.hash = asked.hash
        offset 0
      ) as found
  `;
  const found = new Map(rows.map((row) => [row.at, row]));
  return hashes.map((_, index) => found.get(index + 1));
}

/** Updates "last used" of the grant; of concurrent requests, one writes. */
export async function touchGrant(
  sql: Queryable,
  touch: { grantId: number; now: Date; unlessSince: Date },
): Promise<void> {
  await sql`
    update access_grant set date_used = ${touch.now}
    where id = ${touch.grantId} and (date_used is null or date_used <= ${touch.unlessSince})
  `;
}

export type IntrospectedRow = GrantStatus & {
  storeId: number | null;
  isAccessToken: boolean;
  isFirstUse: boolean;
  expires: Date;
};

/** Returns the state of an access token or refresh token; undefined for a rotated refresh token. */
export function findIntrospected(sql: Queryable, hash: Buffer): Promise<IntrospectedRow | undefined> {
  return firstOf(sql<IntrospectedRow[]>`
    select ${grantStatusColumns(sql)}, g.store_id as "storeId", t.is_access as "isAccessToken",
      t.is_first as "isFirstUse", t.date_expires as expires
    from (
      select grant_id, date_expires, permissions, true as is_access, predecessor is not null as is_first
      from access_token where hash = ${hash}
      union all
      select grant_id, date_expires, null, false, false from refresh_token where hash = ${hash} and rotated_at is null
    ) as t ${grantJoins(sql)}
  `);
}

/** The client, user and store of a revoked grant or token. */
export type Ended = { client: number; userId: number | null; storeId: number | null };

/**
 * Revokes a grant with all its tokens and returns it; undefined if it or its client has already ended. It locks the client
 * first, so that the grant cannot end concurrently with its client.
 */
export function revokeGrant(sql: Queryable, grantId: number, now: Date): Promise<LoggedGrant | undefined> {
  return firstOf(sql<LoggedGrant[]>`
    with locked as (
      select id as locked_id, client_id, name from client
      where id = (select client from access_grant where id = ${grantId}) and date_deleted is null
      for share
    )
    update access_grant g set date_revoked = ${now} from locked
    where g.id = ${grantId} and client = locked_id and date_revoked is null
    returning g.id as "grantId", user_id as "userId", store_id as "storeId", permissions, client,
      client_id as "clientId", name
  `);
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
export function deleteAccessToken(sql: Queryable, hash: Buffer, client: number) {
  return firstOf(sql<(Ended & { grantId: number })[]>`
    delete from access_token t using access_grant g
    where t.hash = ${hash} and g.id = t.grant_id
      and g.client = ${client}
    returning g.id as "grantId", g.client, g.user_id as "userId", g.store_id as "storeId"
  `);
}

/** Locks the apps that a user owns or has connected, in the order of their ids to avoid deadlocks. */
export async function lockClientsOfUser(sql: Queryable, userId: number): Promise<void> {
  await sql`
    select from client where id = any(array(
      select id from client where owner = ${userId}
      union
      select client from access_grant where user_id = ${userId}
    ))
    order by id for no key update
  `;
}

/** Deletes the codes and tokens of a user's grants. Tokens issued concurrently are deleted with their grant. */
export async function deleteTokensOf(sql: Queryable, userId: number): Promise<void> {
  const grants = sql`select id from access_grant where user_id = ${userId}`;
  await sql`delete from authorization_code where grant_id in (${grants})`;
  await sql`delete from refresh_token where grant_id in (${grants})`;
  await sql`delete from access_token where grant_id in (${grants})`;
}

export async function insertRegistrationToken(
  sql: Queryable,
  token: { hash: Buffer; now: Date; expires: Date },
): Promise<void> {
  await sql`
    insert into registration_token (hash, date_created, date_expires)
    values (${token.hash}, ${token.now}, ${token.expires})
  `;
}

/** Deletes a token by its id, the beginning of its hash in hex; returns false if there is none. */
export function deleteRegistrationToken(sql: Queryable, id: string): Promise<boolean> {
  return hasRows(sql`
    delete from registration_token where encode(substring(hash from 1 for length(${id}) / 2), 'hex') = ${id}
      and length(${id}) = 16
  `);
}

export function isRegistrationToken(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return hasRows(sql`
    select from registration_token
    where hash = ${hash}
      and date_expires > ${now}
  `);
}
