/** Grants an app access to a store without the consent page, with the same rows and changelog entries. */
import { transaction, type Sql } from '#db/pool.ts';
import { grantStoreAccess, type TokenAnswer } from '#identity/oauth/issue.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';

const LIFETIMES = { accessTokenLifetimeSeconds: 7_200, refreshTokenIdleDays: 365, refreshTokenMaxDays: 730 };

export function letAppIn(
  { sql, baseUrl }: { sql: Sql; baseUrl: string },
  grant: { clientId: string; userId: number; storeId: number; now: Date },
): Promise<TokenAnswer> {
  return transaction(sql, (tx) => grantStoreAccess(tx, { ...grant, ...openInternalEvents({ baseUrl }), ...LIFETIMES }));
}
