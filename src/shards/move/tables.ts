/** The tables whose rows a move of shards copies. */
import type { Queryable } from '#db/pool.ts';
import { listShardedTables } from '#db/replication.ts';

/** Tables of accounts, which stay in the home database, and tables about a database itself. */
const NOT_MOVED: ReadonlySet<string> = new Set([
  'membership',
  'invitation',
  'shard_lease',
  'shard_owner',
  'moved_shard',
  'outbox',
]);
/** Deleted last, because rows of other tables refer to them. */
const REFERENCED = ['webhook', 'store'];

/** Returns the tables, those that others refer to last. `withStores`: false for the home database, which has the rows of all stores. */
export async function listMovedTables(sql: Queryable, { withStores }: { withStores: boolean }): Promise<string[]> {
  const tables = (await listShardedTables(sql)).filter(
    ({ name }) => !NOT_MOVED.has(name) && (withStores || name !== 'store'),
  );
  const without = tables.find(({ isKey }) => !isKey);
  if (without !== undefined)
    throw new Error(`The primary key of ${without.name} must contain shard, so that its rows can be replicated`);
  return tables.map(({ name }) => name).toSorted((a, b) => REFERENCED.indexOf(a) - REFERENCED.indexOf(b));
}
