/**
 * Disables people and enables them again, and erases users with their sessions, memberships, grants and apps, in one transaction. An account
 * whose e-mail address is not verified is also erased when a person verifies the address, and gets a new account: an invitation link can be
 * handed over and used under any address, and nothing that was set on the old account may remain.
 */
import { actorOf, inPerson, type Actor, type Change, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Tx, type Queryable, type Sql } from '#db/pool.ts';
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound, conflict } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { originOf, recordAuditEntry, type AuditEntry } from './audit.ts';
import { deleteUser, lockForErasure, lockMemberships } from './users-sql.ts';
import { lockUnverified, deleteSessionsOf, lockOperators, updateDisabled } from './accounts-sql.ts';

type ErasureRequest = Pick<ApiRequest, 'address' | 'headers' | 'now'>;

/** Erases a user's data in other modules, in the transaction of the erasure. */
export type EraseUserData = {
  /** Locks the rows that must be locked before memberships. */
  lock: (tx: Tx, userId: number) => Promise<void>;
  erase: (
    tx: Tx,
    of: { userId: number; actor: Actor; request: ErasureRequest } & Pick<AuditEntry, 'client' | 'origin' | 'now'>,
  ) => Promise<void>;
};

/** Throws if the user must not be erased. It locks memberships in the order of shard, store and user. */
type MayErase = (tx: Tx) => Promise<void>;

/**
 * Erases a user whose row the transaction has locked for it. Audit entries (until retention deletes them) and the changelogs of the
 * user's stores remain; they identify the user by id.
 *
 * Lock order: user, apps, the sandbox store, memberships, grants. An approval uses the same order, and the erasure of a store also locks
 * memberships before grants; another order could deadlock.
 */
async function eraseLockedUser(
  tx: Tx,
  { changelog, eraseUserData }: { changelog: Changelog; eraseUserData: EraseUserData },
  erased: { userId: number; actor: Actor; client: number | null; request: ErasureRequest; mayErase?: MayErase },
): Promise<void> {
  const { userId, actor, client, request, mayErase } = erased;
  const { now } = request;
  const by = { userId, client, origin: originOf(request), now };
  await eraseUserData.lock(tx, userId);
  await mayErase?.(tx);
  const memberships = await lockMemberships(tx, userId);
  await eraseUserData.erase(tx, { ...by, actor, request });
  await recordAuditEntry(tx, { ...by, action: 'user_erased' });
  await deleteKeysOf(tx, { resource: 'user', ids: [userId] });
  await deleteUser(tx, userId);
  const changes = memberships.map(({ storeId, role }): Change => {
    const before = { user_id: userId, role };
    return { storeId, actor, resource: 'member', resourceId: userId, action: 'deleted', before, after: null };
  });
  await changelog.record(tx, changes, now);
}

export type UserErasure = {
  /** Erases a user. Throws a 404 if the user does not exist. */
  eraseUser: (
    userId: number,
    request: ErasureRequest & Pick<ApiRequest, 'principal' | 'unmodified'>,
    mayErase?: MayErase,
  ) => Promise<void>;
  /** Erases the account with this address unless it is verified. Call it before the account of the person is added. */
  eraseUnverified: (tx: Tx, email: string, request: ErasureRequest) => Promise<void>;
};

export function createUserErasure(
  { sql }: Pick<Runtime, 'sql'>,
  effects: { changelog: Changelog; eraseUserData: EraseUserData },
): UserErasure {
  return {
    eraseUser: (userId, request, mayErase = async () => {}) =>
      transaction(sql, async (tx) => {
        const revision = await lockForErasure(tx, userId);
        if (revision === undefined) throw notFound('user');
        request.unmodified(revision);
        const { principal } = request;
        const by = { actor: actorOf(principal), client: principal.clientId, request, mayErase };
        await eraseLockedUser(tx, effects, { userId, ...by });
      }),
    eraseUnverified: async (tx, email, request) => {
      const userId = await lockUnverified(tx, email);
      if (userId === undefined) return;
      await eraseLockedUser(tx, effects, { userId, actor: inPerson(userId), client: null, request });
    },
  };
}

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
