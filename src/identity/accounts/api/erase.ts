/** The end of a user: with the commit nothing opens any more that was opened in their name. */
import { actorOf, type Actor, type Change, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { originOf, recordAuditEntry, type AuditEntry } from '../audit/audit.ts';
import { deleteUser, lockForErasure, lockMemberships } from './users-sql.ts';

/** Erases what other rooms keep of a user, in the transaction that it is given. */
export type EraseTheirs = {
  /** Keeps what has to be locked before anybody's membership is. */
  hold: (tx: Tx, userId: number) => Promise<void>;
  erase: (
    tx: Tx,
    of: { userId: number; actor: Actor } & Pick<AuditEntry, 'client' | 'origin' | 'now'>,
  ) => Promise<void>;
};

/**
 * What stays is the audit, for as long as it is kept, and the changelogs of their stores: they say by number who did what.
 * Throws a 404 where there is no such user.
 *
 * Locked are the user, then apps, memberships and grants: an approval takes them in this order, and the erasure of a store
 * takes its memberships before its grants, too. In another order two of them would wait for each other.
 */
export const eraseUser = (
  { sql, changelog, eraseTheirs }: { sql: Sql; changelog: Changelog; eraseTheirs: EraseTheirs },
  userId: number,
  request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now' | 'unmodified'>,
): Promise<void> =>
  transaction(sql, async (tx) => {
    const made = await lockForErasure(tx, userId);
    if (made === undefined) throw notFound('user');
    request.unmodified(made.getTime());
    const { principal, now } = request;
    const actor = actorOf(principal);
    const by = { userId, client: principal.clientId, origin: originOf(request), now };
    await eraseTheirs.hold(tx, userId);
    const left = await lockMemberships(tx, userId);
    await eraseTheirs.erase(tx, { ...by, actor });
    await recordAuditEntry(tx, { ...by, action: 'user_erased' });
    await deleteUser(tx, userId);
    const changes = left.map(({ storeId, role }): Change => {
      const before = { user_id: userId, role };
      return { storeId, actor, resource: 'member', resourceId: userId, action: 'deleted', before, after: null };
    });
    await changelog.record(tx, changes, now);
  });
