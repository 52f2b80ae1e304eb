/** Grants an app access to a store without the consent page, with the same rows and changelog entries. */
import { transaction, type Sql } from '#db/pool.ts';
import { grantStoreAccess, type TokenAnswer } from '#identity/oauth/oauth-tokens.ts';
import { readMap } from '#shards/map-sql.ts';
import { enqueue } from '#shards/outbox.ts';
import { enqueueForAll } from '#shards/outbox-sql.ts';
import { openInternalEvents, type InternalEvents, withOutbox } from '../../src/server/publishing.ts';
import { changeHome } from './suite-map.ts';

const LIFETIMES = { accessTokenLifetimeSeconds: 7_200, refreshTokenIdleDays: 365, refreshTokenMaxDays: 730 };

/** Returns the changes of stores that follow a change of accounts, as a command makes them in the home database. */
export async function openEffects(home: Sql, baseUrl: string, platformStore?: number): Promise<InternalEvents> {
  const map = await readMap(home);
  const elsewhere = { databases: { map, each: () => [home] }, outbox: { enqueue, enqueueForAll } };
  return withOutbox(openInternalEvents({ baseUrl, stores: { platformStore } }), elsewhere);
}

export async function letAppIn(
  { sql, baseUrl }: { sql: Sql; baseUrl: string },
  grant: { clientId: string; userId: number; storeId: number; now: Date },
): Promise<TokenAnswer> {
  return changeHome(sql, async (home) => {
    const effects = await openEffects(home, baseUrl);
    return transaction(home, (tx) =>
      grantStoreAccess(tx, effects, LIFETIMES, { ...grant, requiresFactor: false, permissions: null }),
    );
  });
}
