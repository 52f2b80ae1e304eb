/** Disables people and enables them again: the act of an operator, for a reason, and of the command line. */
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import { conflict, notFound } from '#core/problem.ts';
import { deleteSessionsOf, lockOperators, updateDisabled } from './accounts-sql.ts';
import { recordAuditEntry } from './audit.ts';

/** Applies the end or the return of the access of the apps of a user. */
type AccessChanged = (tx: Queryable, scope: { userId: number }, now: Date) => Promise<void>;

type Disabling = {
  userId: number;
  isDisabled: boolean;
  /** The operator, and the reason to disable the user; absent for the command line. */
  by?: { operatorId: number; reason: string | null };
  now: Date;
};

/**
 * Disables or enables a user. Disabling ends all sessions for good; the grants of the user stay, and are in effect again when the user is
 * enabled. Does nothing if that is done already.
 */
export async function setDisabledIn(
  tx: Tx,
  accessChanged: AccessChanged,
  { userId, isDisabled, by, now }: Disabling,
): Promise<void> {
  const reason = by?.reason ?? null;
  if (!(await updateDisabled(tx, userId, isDisabled ? now : null, reason))) return;
  if (isDisabled) await deleteSessionsOf(tx, userId);
  await accessChanged(tx, { userId }, now);
  const action = isDisabled ? 'user_disabled' : 'user_enabled';
  const detail = by === undefined ? {} : { operator: String(by.operatorId), ...(reason !== null && { reason }) };
  await recordAuditEntry(tx, { action, userId, origin: null, detail, now });
}

const SELF = 'An operator cannot suspend their own account, so that one remains: another operator can';

/**
 * Suspends a person for a reason, or ends the suspension (null). Throws a 409 `own_account` for the operator's own account, and a 404 if the
 * operator has lost the role or been suspended meanwhile: the locks let one of two operators who suspend each other win.
 */
export function setPersonSuspension(
  sql: Sql,
  accessChanged: AccessChanged,
  userId: number,
  { reason, operatorId, now }: { reason: string | null; operatorId: number; now: Date },
): Promise<void> {
  return transaction(sql, async (tx) => {
    if (!(await lockOperators(tx)).includes(operatorId)) throw notFound('page');
    if (userId === operatorId) throw conflict('own_account', SELF);
    await setDisabledIn(tx, accessChanged, { userId, isDisabled: reason !== null, by: { operatorId, reason }, now });
  });
}
