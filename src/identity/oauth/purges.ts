/** Retention of the authorization server: the expired rows, and how long they are kept. */
import { transaction, type Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import {
  deleteAccessTokens,
  deleteClientSecrets,
  deleteCodes,
  deleteDeletedClients,
  deleteGrantsOfDeletedClients,
  deleteRefreshTokens,
  deleteRegistrationTokens,
  deleteRevokedGrants,
  deleteUnusedClients,
  keepUsedClients,
  lockUnusedClients,
} from './purges-sql.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

export type RetentionPeriods = { codeKeptMinutes: number; accessTokenKeptHours: number; revokedGrantKeptDays: number };

const ago = (now: Date, ms: number): Date => new Date(now.getTime() - ms);

/**
 * Each statement sees what was committed while the previous one waited, so a client that has just received its first
 * grant is kept.
 */
const purgeUnusedClients = (sql: Sql, limit: number, now: Date): Promise<number> =>
  transaction(sql, async (tx) => {
    const due = await lockUnusedClients(tx, now, limit);
    await keepUsedClients(tx, due);
    return deleteUnusedClients(tx, due);
  });

/** A rotated refresh token is kept until its date of expiry, which the rotation set. */
export function createOAuthPurges({ sql, kept }: { sql: Sql; kept: RetentionPeriods }): readonly Purge[] {
  return [
    {
      name: 'authorization_codes',
      purge: (limit, now) => deleteCodes(sql, ago(now, kept.codeKeptMinutes * MINUTE_MS), limit),
    },
    {
      name: 'access_tokens',
      purge: (limit, now) => deleteAccessTokens(sql, ago(now, kept.accessTokenKeptHours * HOUR_MS), limit),
    },
    { name: 'refresh_tokens', purge: (limit, now) => deleteRefreshTokens(sql, now, limit) },
    {
      name: 'revoked_grants',
      purge: (limit, now) => deleteRevokedGrants(sql, ago(now, kept.revokedGrantKeptDays * DAY_MS), limit),
    },
    // Delayed by a minute: requests in flight at the deletion lock a token before its grant, and have finished by then.
    {
      name: 'grants_of_deleted_clients',
      purge: (limit, now) => deleteGrantsOfDeletedClients(sql, ago(now, MINUTE_MS), limit),
    },
    { name: 'deleted_clients', purge: (limit, now) => deleteDeletedClients(sql, ago(now, MINUTE_MS), limit) },
    { name: 'client_secrets', purge: (limit, now) => deleteClientSecrets(sql, now, limit) },
    { name: 'unused_clients', purge: (limit, now) => purgeUnusedClients(sql, limit, now) },
    { name: 'registration_tokens', purge: (limit, now) => deleteRegistrationTokens(sql, now, limit) },
  ];
}
