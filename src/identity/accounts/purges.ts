/** Retention of accounts: the expired rows that retention deletes. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { deleteAuditEntries, deleteFullBuckets, deletePasswordResets, deleteSessions } from './purges-sql.ts';

const DAY_MS = 86_400_000;

export function createAccountPurges(deps: { sql: Sql; auditKeptDays: number }): readonly Purge[] {
  const { sql, auditKeptDays } = deps;
  return [
    { name: 'sessions', purge: (limit, now) => deleteSessions(sql, now, limit) },
    { name: 'password_resets', purge: (limit, now) => deletePasswordResets(sql, now, limit) },
    { name: 'throttle_buckets', purge: (limit, now) => deleteFullBuckets(sql, now, limit) },
    {
      name: 'audit_entries',
      purge: (limit, now) => deleteAuditEntries(sql, new Date(now.getTime() - auditKeptDays * DAY_MS), limit),
    },
  ];
}
