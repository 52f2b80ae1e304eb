/**
 * Runs the suite with a map of three databases (`HALCYON_TEST_DATABASES=3`): accounts in the home database, the stores in another one,
 * and a third with a single shard.
 */
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { divide } from './divided.ts';
import { databasesOf, IS_DIVIDED, settle } from './suite-handle.ts';
import { urlOf } from './database.ts';

const SHARDS = [
  { first: 256, last: 255 },
  { first: 0, last: 254 },
  { first: 255, last: 255 },
];

/** The options of a test that cannot hold with several databases, for this reason. */
export const inOneDatabase = (reason: string): { skip: string | false } => ({ skip: IS_DIVIDED && reason });

/** Returns the pool of the home database, which the application gets. */
export const homeOf = (handle: Sql): Sql => databasesOf(handle)?.home ?? handle;

/** Returns the pool of the database that has the stores; it is another one once the application has started. */
export const storesOf = (handle: Sql): Sql => databasesOf(handle)?.stores ?? handle;

/** Returns the pools of both, or of the one database that there is. */
export const bothOf = (handle: Sql): Sql[] => [...new Set([homeOf(handle), storesOf(handle)])];

/** Makes a change with the pool of the home database, as a command does, and returns its result once it is applied elsewhere. */
export async function changeHome<T>(handle: Sql, change: (home: Sql) => Promise<T>): Promise<T> {
  const result = await change(homeOf(handle));
  const databases = databasesOf(handle);
  if (databases !== undefined) await settle(databases);
  return result;
}

/** Opens a pool of its own to the database that has the stores. `address`: that of a test database. */
export function openStores(handle: Sql, address: DatabaseAddress, options: Parameters<typeof openPool>[1]): Sql {
  return openPool(databasesOf(handle)?.address ?? address, options);
}

/** Divides the database of an application that starts, once. */
export async function divideSuite(handle: Sql, secretKey: Buffer): Promise<void> {
  const databases = databasesOf(handle);
  if (databases === undefined || databases.stores !== undefined) return;
  if ((await databases.home`select from store limit 1`).length > 0) return;
  const addresses: DatabaseAddress[] = [];
  const through = async (address: DatabaseAddress): Promise<string> => {
    addresses.push(address);
    return urlOf(address);
  };
  const [, stores] = await divide(databases.home, { shards: SHARDS, secretKey, through }, databases.ends);
  // Tests take ids of both from the sequence of the home database.
  if (stores !== undefined) await stores`select setval('id_n', 1000000)`;
  databases.stores = stores;
  [databases.address] = addresses;
}
