/** Replaces a password, after a change or a reset, and ends the user's sessions and reset links. */
import type { Actor } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { recordAuditEntry, type Origin } from '../audit/audit.ts';
import { deleteSessionsOf, updatePassword } from '../accounts-sql.ts';
import { deleteResetsOf } from './password-sql.ts';

/** Revokes all grants of a user and returns their number. Passed in, because accounts may not write the table of grants. */
export type EndGrants = (
  sql: Queryable,
  of: { userId: number; actor: Actor; origin: Origin | null; now: Date },
) => Promise<number>;

/**
 * Stores a new password and ends all sessions and reset links of the user. Grants remain unless `endGrants` is given. Call
 * it in a transaction that has locked the user's row.
 */
export async function replacePassword(
  sql: Queryable,
  change: {
    action: 'password_changed' | 'password_reset';
    userId: number;
    passwordHash: string;
    endGrants: EndGrants | undefined;
    actor: Actor;
    origin: Origin | null;
    now: Date;
  },
): Promise<void> {
  const { action, userId, actor, origin, now } = change;
  await updatePassword(sql, userId, change.passwordHash);
  await deleteResetsOf(sql, userId);
  await deleteSessionsOf(sql, userId);
  const grants = await change.endGrants?.(sql, { userId, actor, origin, now });
  await recordAuditEntry(sql, {
    action,
    userId,
    origin,
    detail: grants === undefined ? {} : { grants_ended: grants },
    now,
  });
}
