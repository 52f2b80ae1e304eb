/** Ending what somebody has allowed. The bearer check asks at every request, so it counts at the next one everywhere. */
import { originOf, recordAuditEntry, type Origin } from '#identity/accounts/audit/audit.ts';
import type { SignedIn } from '#identity/accounts/signed-in.ts';
import { inPerson, type Actor } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { parseId } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { grantChanges, type AfterGrants } from '../grant-changes.ts';
import { findOwnGrant, revokeGrants, revokeGrantsFor } from './connected-sql.ts';
import { boundToRevoke } from './section.ts';

/**
 * Ends the live grants of a user, those of one client or for one store (null: for the account) where these are named by
 * their internal ids, and writes down each, here and in its store: give it the transaction of whatever it belongs to.
 * Answers how many ended.
 */
export const revokeGrantsOf = async (
  sql: Queryable,
  { changelog, stopWebhooks }: AfterGrants,
  which: { userId: number; clientId?: number; storeId?: number | null; actor: Actor; origin: Origin | null; now: Date },
): Promise<number> => {
  const { userId, clientId, actor, origin, now } = which;
  const revoked = await revokeGrants(sql, { userId, client: clientId, storeId: which.storeId }, now);
  if (revoked.length > 0) await stopWebhooks(sql, { userId, client: clientId, storeId: which.storeId }, now);
  for (const { client, storeId } of revoked)
    await recordAuditEntry(sql, { action: 'grant_revoked', userId, client, storeId, origin, now });
  await changelog.record(sql, grantChanges(revoked, { actor, action: 'revoked' }), now);
  return revoked.length;
};

/**
 * Ends what anybody has allowed for a store that is being erased, and writes down each; in the transaction of that. The
 * store's own changelog goes with the store, so nothing of it is written there.
 */
export const revokeGrantsForStore = async (
  sql: Queryable,
  { storeId, origin, now }: { storeId: number; origin: Origin | null; now: Date },
): Promise<void> => {
  for (const ended of await revokeGrantsFor(sql, storeId, now))
    await recordAuditEntry(sql, { action: 'grant_revoked', ...ended, origin, now });
};

const grantIdOf = ({ params }: RawRequest): number => parseId(params['grant_id'] ?? '') ?? 0;

/**
 * POST /account/connected/<grant_id>/revoke: ends what the grant is for, also what was allowed again meanwhile. One that
 * has ended before is no error, so that a double click is none.
 */
export const createRevokeButton = (deps: AfterGrants & { sql: Sql; signedIn: SignedIn; root: string }): RawHandler =>
  deps.signedIn.form(
    (request) => boundToRevoke(grantIdOf(request)),
    async (request, { userId }) => {
      const grant = await findOwnGrant(deps.sql, grantIdOf(request), userId);
      if (grant === undefined) throw notFound('connected app');
      const which = { userId, clientId: grant.client, storeId: grant.storeId };
      const by = { actor: inPerson(userId), origin: originOf(request), now: request.now };
      await transaction(deps.sql, (tx) => revokeGrantsOf(tx, deps, { ...which, ...by }));
      return redirectAnswer(`${deps.root}/account?done=revoked#connected`);
    },
  );
