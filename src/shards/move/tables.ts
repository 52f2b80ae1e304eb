/** The tables whose rows a move of shards copies. */
import type { Queryable } from '#db/pool.ts';
import { listLeaves, listShardedTables } from '#db/replication.ts';
import { HOME } from '../map.ts';
import { deleteRows, hasRows } from './move-sql.ts';

/** Tables of accounts, which stay in the home database, and tables about a database itself. */
const NOT_MOVED: ReadonlySet<string> = new Set([
  'membership',
  'invitation',
  'awaited_member',
  'portal_session',
  'shard_lease',
  'shard_owner',
  'moved_shard',
  'outbox',
]);
/** Deleted last, because rows of other tables refer to them. */
const REFERENCED = ['webhook', 'store'];

/** The home database has these of all shards. */
const STORES: ReadonlySet<string> = new Set(['store', 'erased_store']);

/** Returns the tables, those that others refer to last. `withStores`: false if the home database is to keep the rows of all stores. */
export async function listMovedTables(sql: Queryable, { withStores }: { withStores: boolean }): Promise<string[]> {
  const tables = (await listShardedTables(sql)).filter(
    ({ name }) => !NOT_MOVED.has(name) && (withStores || !STORES.has(name)),
  );
  const without = tables.find(({ isKey }) => !isKey);
  if (without !== undefined)
    throw new Error(
      `The primary key of ${without.name} must contain shard, or its replica identity be full, so that its rows can be replicated`,
    );
  return tables.map(({ name }) => name).toSorted((a, b) => REFERENCED.indexOf(a) - REFERENCED.indexOf(b));
}

/**
 * Tables that processes read or change for all shards of a database: rows that were moved are deleted from them at once, or their
 * webhooks would be listed twice, and the end of an app's access and secrets that are sealed again could not be written. The others are
 * large, and are kept for a while.
 */
const SWEPT: ReadonlySet<string> = new Set([
  'delivery',
  'delivery_order',
  'delivery_suspect',
  'erased_chain',
  'erased_customer',
  'erased_event',
  'erased_resource',
  'idempotency_key',
  'recovery',
  'revenue_book',
  'webhook',
  'webhook_state',
]);

/** Rows of a transaction: about a tenth of a second. */
const BATCH_ROWS = 5_000;

/** Called with the number of rows that were deleted from a table or partition. */
export type OnDeleted = (table: string, rows: number) => void;

async function deleteFrom(
  sql: Queryable,
  tables: readonly string[],
  { shards, onDeleted }: { shards: readonly number[]; onDeleted: OnDeleted },
): Promise<void> {
  for (const leaf of await listLeaves(sql, tables)) {
    let rows = 0;
    // Rows that another transaction has locked are left for the next round.
    while (await hasRows(sql, leaf, shards))
      for (const shard of shards) rows += await deleteRows(sql, leaf, shard, BATCH_ROWS);
    if (rows > 0) onDeleted(leaf, rows);
  }
}

/** Deletes the rows of shards, some at a time. */
export async function deleteMoved(
  { id, sql }: { id: number; sql: Queryable },
  shards: readonly number[],
  onDeleted: OnDeleted,
): Promise<void> {
  const tables = await listMovedTables(sql, { withStores: id !== HOME });
  await deleteFrom(sql, tables, { shards, onDeleted });
}

/** Deletes the rows of shards in the tables that processes read for all shards. */
export async function deleteSwept(sql: Queryable, shards: readonly number[]): Promise<void> {
  const tables = (await listMovedTables(sql, { withStores: false })).filter((name) => SWEPT.has(name));
  await deleteFrom(sql, tables, { shards, onDeleted: () => {} });
}
