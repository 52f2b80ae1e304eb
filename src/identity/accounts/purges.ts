/** The expired rows of accounts. */
import { purgesOf, type Purge } from '#db/purges.ts';
import type { Sql } from '#db/pool.ts';

const DAY_MS = 86_400_000;

/** A throttle bucket without a row is full. */
export function createAccountPurges({ sql, auditKeptDays }: { sql: Sql; auditKeptDays: number }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'sessions', deletes: 'session', key: 'hash', expires: 'date_expires' },
    { name: 'used_challenges', deletes: 'used_challenge', key: 'hash', expires: 'date_expires' },
    { name: 'password_resets', deletes: 'password_reset', key: 'hash', expires: 'date_expires' },
    { name: 'email_changes', deletes: 'email_change', key: 'hash', expires: 'date_undo_expires' },
    { name: 'sign_ups', deletes: 'sign_up', key: 'hash', expires: 'date_expires' },
    { name: 'throttle_buckets', deletes: 'throttle', key: 'key', expires: 'full_at' },
    { name: 'audit_entries', deletes: 'audit', key: 'id', expires: 'date_created', keptMs: auditKeptDays * DAY_MS },
  ]);
}
