/** Grants an app access to a store without the consent page, with the same rows and changelog entries. */
import { transaction, type Sql } from '#db/pool.ts';
import { grantStoreAccess, type TokenAnswer } from '#identity/oauth/issue.ts';
import { readMap } from '#shards/map-sql.ts';
import { enqueue } from '#shards/outbox.ts';
import { enqueueForAll } from '#shards/outbox-sql.ts';
import { withOutbox } from '../../src/server/home-changes.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';

const LIFETIMES = { accessTokenLifetimeSeconds: 7_200, refreshTokenIdleDays: 365, refreshTokenMaxDays: 730 };

export async function letAppIn(
  { sql, baseUrl }: { sql: Sql; baseUrl: string },
  grant: { clientId: string; userId: number; storeId: number; now: Date },
): Promise<TokenAnswer> {
  const map = await readMap(sql);
  const elsewhere = { map: () => map, outbox: { enqueue, enqueueForAll }, each: () => [sql] };
  const effects = withOutbox(openInternalEvents({ baseUrl }), elsewhere);
  return transaction(sql, (tx) => grantStoreAccess(tx, { ...grant, ...effects, ...LIFETIMES }));
}
