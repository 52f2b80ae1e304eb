/** The expired rows of the authorization server: how long they are kept, and the statements that delete more than one table's. */
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import { recordAuditEntry } from '#identity/accounts/audit.ts';
import { HALCYON } from '#changelog/changelog.ts';
import { transaction, type Fragment, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import { deleteBatch, purgesOf, type Purge } from '#db/purges.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { UNUSED_DAYS } from './clients/clients.ts';
import { endGrant } from './revoke.ts';
import type { RevocationEffects } from './grants.ts';
import type { Ended } from './oauth-sql.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** How long the tokens of a grant work after a newer one replaced it: other processes of the app may not have the new ones yet. */
const RETIREMENT_MS = DAY_MS;

type Gone = {
  grantId: number;
  isUsed: boolean;
  client: number | null;
  clientId: string | null;
  userId: number | null;
  storeId: number | null;
};

/** A rotated refresh token is kept until its date of expiry, which the rotation set. */
export function createOAuthPurges(
  { sql, config: { housekeeping: kept } }: Pick<Runtime, 'sql'> & { config: Pick<Runtime['config'], 'housekeeping'> },
  effects: RevocationEffects,
): readonly Purge[] {
  const tokenKeptMs = kept.accessTokenKeptHours * HOUR_MS;
  const grantKeptMs = kept.revokedGrantKeptDays * DAY_MS;
  return purgesOf(sql, [
    {
      name: 'authorization_codes',
      by: (pool, ...rest) => deleteExpired(pool, effects, expiredCodes, ...rest),
      keptMs: kept.codeKeptMinutes * MINUTE_MS,
    },
    {
      name: 'device_authorizations',
      deletes: 'device_authorization',
      key: 'hash',
      expires: 'date_expires',
      keptMs: kept.codeKeptMinutes * MINUTE_MS,
    },
    { name: 'access_tokens', deletes: 'access_token', key: 'hash', expires: 'date_expires', keptMs: tokenKeptMs },
    { name: 'refresh_tokens', by: (pool, ...rest) => deleteExpired(pool, effects, expiredRefreshTokens, ...rest) },
    { name: 'retired_grants', by: (pool, before, limit) => endRetired(pool, effects, before, limit) },
    // Codes and tokens of a grant are deleted with it.
    { name: 'revoked_grants', deletes: 'access_grant', key: 'id', expires: 'date_revoked', keptMs: grantKeptMs },
    // Waits a minute: requests in flight at the deletion lock a token before its grant, and have finished by then.
    { name: 'grants_of_deleted_clients', by: deleteGrantsOfDeletedClients, keptMs: MINUTE_MS },
    { name: 'deleted_clients', by: deleteDeletedClients, keptMs: MINUTE_MS },
    { name: 'client_secrets', deletes: 'client_secret', key: 'hash', expires: 'date_expires' },
    { name: 'unused_clients', by: purgeUnusedClients },
    { name: 'registration_tokens', deletes: 'registration_token', key: 'hash', expires: 'date_expires' },
  ]);
}

/** Deletes expired codes, of which those that were never redeemed are the last of their grant. */
const expiredCodes = (sql: Queryable, before: Date, limit: number) => sql`
  delete from authorization_code where hash = any(array(
    select hash from authorization_code where date_expires <= ${before}
    order by date_expires limit ${limit} for update skip locked
  ))
  returning grant_id, used_at is not null as is_used`;

/** Deletes expired refresh tokens, of which those that were not rotated are the current ones of their grant. */
const expiredRefreshTokens = (sql: Queryable, before: Date, limit: number) => sql`
  delete from refresh_token where hash = any(array(
    select hash from refresh_token where date_expires <= ${before}
    order by date_expires limit ${limit} for update skip locked
  ))
  returning grant_id, rotated_at is not null as is_used`;

/**
 * Deletes expired codes or refresh tokens, with the grants of which they were the last, applies the end of these, and retires the grants
 * that the grants of redeemed codes replace: not at the approval, because the app may never redeem the code, and not at the token endpoint,
 * which every app waits for.
 */
const deleteExpired = (
  sql: Sql,
  { accessChanged, noteExpired }: RevocationEffects,
  expired: typeof expiredCodes,
  ...[before, limit, now]: readonly [Date, number, Date]
): Promise<number> =>
  transaction(sql, async (tx) => {
    const gone = await deleteWithGrants(tx, expired(tx, before, limit));
    for (const { grantId, client, clientId, userId, storeId } of gone) {
      if (client !== null && userId !== null) await accessChanged(tx, { client, userId, storeId }, now);
      if (clientId !== null && storeId !== null) await noteExpired(tx, { grantId, clientId, storeId }, now);
    }
    const redeemed = expired === expiredCodes ? gone.flatMap(({ grantId, isUsed }) => (isUsed ? [grantId] : [])) : [];
    if (redeemed.length > 0) await retireReplaced(tx, redeemed, now);
    return gone.length;
  });

/** Deletes what has expired and the grants of which it was the last. `client`: of such a grant, unless it had been revoked before; `clientId`: the same of an app that exists. */
function deleteWithGrants(sql: Queryable, expired: Fragment): Promise<Gone[]> {
  return sql<Gone[]>`
    with gone as (
      ${expired}
    ), lapsed as (
      delete from access_grant where id = any(array(select grant_id from gone where not is_used))
      returning id, client, user_id, store_id, date_revoked
    )
    select gone.grant_id as "grantId", gone.is_used as "isUsed", case when g.date_revoked is null then g.client end as client,
      case when g.date_revoked is null then (select client_id from client where id = g.client and date_deleted is null) end as "clientId", g.user_id as "userId", g.store_id as "storeId"
    from gone left join lapsed g on g.id = gone.grant_id and not gone.is_used
  `;
}

/**
 * Sets the end of older grants of the same client, user, store and scopes, and audits each. Public clients are left out, because
 * each installation has a grant of its own.
 */
async function retireReplaced(tx: Tx, newer: readonly number[], now: Date): Promise<void> {
  const ends = new Date(now.getTime() + RETIREMENT_MS);
  const retired = await tx<(Ended & { grantId: number })[]>`
    with made as (
      select g.* from access_grant g join client c on c.id = g.client and not c.is_public and c.date_deleted is null
      where g.id = any(${newer}::bigint[]) and g.user_id is not null and g.date_revoked is null
    ), older as (
      select o.id from made cross join lateral (
        select * from access_grant where user_id = made.user_id offset 0
      ) as o
      where o.client = made.client and o.scope = made.scope and o.date_revoked is null and (o.date_ends is null or o.date_ends > ${ends})
        and o.store_id is not distinct from made.store_id and o.permissions is not distinct from made.permissions
        and (o.date_created, o.id) < (made.date_created, made.id)
    ), locked as (
      select id from access_grant where id = any(array(select id from older)) order by id for no key update
    )
    update access_grant g set date_ends = ${ends} from locked
    where g.id = locked.id and g.date_revoked is null and (g.date_ends is null or g.date_ends > ${ends})
    returning g.id as "grantId", g.client, g.user_id as "userId", g.store_id as "storeId"
  `;
  for (const { grantId: grant, ...whose } of retired) {
    const detail = { grant, ends: ends.toISOString() };
    await recordAuditEntry(tx, { action: 'grant_retired', ...whose, origin: null, detail, now });
  }
}

/** Ends retired grants whose date has come, each in a transaction of its own, and returns their number. */
async function endRetired(sql: Sql, effects: RevocationEffects, now: Date, limit: number): Promise<number> {
  const rows = await sql<{ grantId: number }[]>`
    select id as "grantId" from access_grant where date_ends <= ${now} and date_revoked is null
      and exists (select from client c where c.id = client and c.date_deleted is null)
    order by date_ends limit ${limit}
  `;
  for (const { grantId } of rows)
    await endGrant(sql, effects, { grantId, action: null, actor: HALCYON, origin: null, now });
  return rows.length;
}

/** Deletes grants of deleted clients with their codes and tokens. */
async function deleteGrantsOfDeletedClients(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from access_grant where id = any(array(
      select g.id from client c join access_grant g on g.client = c.id where c.date_deleted <= ${before}
      limit ${limit} for update of g skip locked
    ))
  `;
  return count;
}

/** Deletes clients marked as deleted that have no grants left, with their secrets and logo. */
function deleteDeletedClients(sql: Queryable, before: Date, limit: number): Promise<number> {
  const hasNoGrants = sql`not exists (select from access_grant g where g.client = client.id)`;
  const table = { deletes: 'client', key: 'id', order: ['date_deleted'] };
  return deleteBatch(sql, table, sql`date_deleted <= ${before} and ${hasNoGrants}`, limit);
}

/**
 * Deletes clients whose deadline for a first grant has passed. Each statement sees what was committed while the previous one
 * waited, so a client that has just received its first grant is kept.
 */
const purgeUnusedClients = (sql: Sql, before: Date, limit: number): Promise<number> =>
  transaction(sql, async (tx) => {
    const due = await lockUnusedClients(tx, before, limit);
    await keepUsedClients(tx, due, new Date(before.getTime() + UNUSED_DAYS * DAY_MS));
    const ids = await deleteUnusedClients(tx, due, before);
    await deleteKeysOf(tx, { resource: 'client', ids });
    return ids.length;
  });

/**
 * Locks and returns clients whose deadline for a first grant has passed. The lock blocks new grants until the
 * transaction ends.
 */
async function lockUnusedClients(sql: Queryable, now: Date, limit: number): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select id from client where unused_until <= ${now}
    order by unused_until limit ${limit} for update skip locked
  `;
  return rows.map(({ id }) => id);
}

/**
 * Clears the deadline of the clients that have received a grant. A client that a metadata document identifies comes back with the next
 * consent, so it gets another deadline, and its suspension is kept. `offset 0`: without it, the plan hashes all grants.
 */
async function keepUsedClients(sql: Queryable, ids: readonly number[], next: Date): Promise<void> {
  await sql`
    update client set unused_until = case when client_id like 'https://%' then ${next}::timestamptz end
    where id = any(${ids}::bigint[]) and (
      exists (select from access_grant g where g.client = client.id offset 0)
      or (client_id like 'https://%' and suspended_reason is not null)
    )
  `;
}

async function deleteUnusedClients(sql: Queryable, ids: readonly number[], before: Date): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    delete from client where id = any(${ids}::bigint[]) and unused_until <= ${before} returning id`;
  return rows.map(({ id }) => id);
}

/** Returns the first dates on which a token and a response for an `Idempotency-Key` expired or were stored; each reads one index entry. */
export async function listOldestExpired(sql: Queryable): Promise<Date[]> {
  const rows = await sql<{ at: Date | null }[]>`
    select min(date_expires) as at from access_token union all select min(date_created) from idempotency_key`;
  return rows.flatMap(({ at }) => at ?? []);
}
