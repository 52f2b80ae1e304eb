/**
 * Runs the suite with a map of three databases (`HALCYON_TEST_DATABASES=3`): accounts in the home database, the stores in another one,
 * and a third with a single shard.
 */
import type { Sql } from '#db/pool.ts';
import type { Cleanups } from './cleanups.ts';
import { divide } from './divided.ts';
import { databasesOf } from './suite-handle.ts';

const SHARDS = [
  { first: 256, last: 255 },
  { first: 0, last: 254 },
  { first: 255, last: 255 },
];

/** Returns the pool of the home database, which the application gets. */
export const homeOf = (handle: Sql): Sql => databasesOf(handle)?.home ?? handle;

/** Divides the database of an application that starts, once. */
export async function divideSuite(handle: Sql, secretKey: Buffer, ends?: Cleanups): Promise<void> {
  const databases = databasesOf(handle);
  if (databases === undefined || databases.stores !== undefined) return;
  if ((await databases.home`select from store limit 1`).length > 0) return;
  const [, stores] = await divide(databases.home, { shards: SHARDS, secretKey }, ends);
  // Tests take ids of both from the sequence of the home database.
  if (stores !== undefined) await stores`select setval('id_n', 1000000)`;
  databases.stores = stores;
}
