/** Copies a store of the home database to the database of its shard, with the changes that follow there. */
import type { Queryable, Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { deleteStore, insertErased, lockCopy, readStoreRow, upsertCopy } from './stores-sql.ts';

type Store = { shard: number; storeId: number };

export type CopyDeps = {
  home: Queryable;
  /**
   * Called after the domain has changed, after the time zone has changed, and before the store is deleted. The first and the last return a
   * function to call after the commit.
   */
  onDomainChanged: (tx: Tx, store: Store) => Promise<() => Promise<void>>;
  onTimeZoneChanged: (tx: Tx, store: Store) => Promise<unknown>;
  onErased: (tx: Tx, store: Store, by: { now: Date }) => Promise<() => Promise<void>>;
};

/**
 * Makes the copy equal to the store as it is now; a later change is copied again. An erased store is erased here too. May return a function
 * to call after the commit.
 */
export async function copyStore(
  tx: Tx,
  storeId: number,
  deps: CopyDeps & { now: Date },
): Promise<(() => Promise<void>) | undefined> {
  const store = { shard: shardOf(storeId), storeId };
  const before = await lockCopy(tx, store);
  // The store of the home database is read while the copy is locked.
  const row = await readStoreRow(deps.home, store);
  if (row === undefined) {
    if (before === undefined) return undefined;
    const afterCommit = await deps.onErased(tx, store, deps);
    await insertErased(tx, { ...store, now: deps.now });
    await deleteStore(tx, store.shard, storeId);
    return afterCommit;
  }
  const after = await upsertCopy(tx, row);
  if (before === undefined || after === undefined) return undefined;
  if (before.timeZone !== after.timeZone) await deps.onTimeZoneChanged(tx, store);
  return before.domain === after.domain ? undefined : deps.onDomainChanged(tx, store);
}
