/** Ending what somebody has allowed. The bearer check asks at every request, so it counts at the next one everywhere. */
import { recordDeed, type Origin } from '#accounts/audit/audit.ts';
import type { Queryable } from '#database/pool.ts';
import { revokeGrants } from './queries.ts';

/**
 * Ends the live grants of a user, those of one client or for one store (null: for the account) where these are named by
 * their internal ids, and writes down each: give it the transaction of whatever it belongs to. Answers how many ended.
 */
export const revokeGrantsOf = async (
  sql: Queryable,
  which: { userId: number; clientId?: number; storeId?: number | null; origin: Origin | null; now: Date },
): Promise<number> => {
  const { userId, clientId, storeId, origin, now } = which;
  const revoked = await revokeGrants(sql, { userId, client: clientId, storeId }, now);
  for (const ended of revoked) await recordDeed(sql, { action: 'grant_revoked', userId, ...ended, origin, now });
  return revoked.length;
};
