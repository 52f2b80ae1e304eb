/** What a new password does, however it came: the one page that says which ways in end with it. */
import type { Actor } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { recordAuditEntry, type Origin } from '../audit/audit.ts';
import { deleteSessionsOf, updatePassword } from '../accounts-sql.ts';
import { deleteResetsOf } from './password-sql.ts';

/** Ends every grant of a user; how many there were. The grants are not accounts' to write, so it is handed in. */
export type EndGrants = (
  sql: Queryable,
  of: { userId: number; actor: Actor; origin: Origin | null; now: Date },
) => Promise<number>;

/**
 * Give it a transaction that holds the user's row. Every session and every link to a new password end; what apps were
 * granted stays unless `endGrants` is there.
 */
export const replacePassword = async (
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
): Promise<void> => {
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
};
